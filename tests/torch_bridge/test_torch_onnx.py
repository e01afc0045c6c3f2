"""Models leave torch as standard ONNX, and onnxruntime gives the same numbers."""

from __future__ import annotations

import warnings

import firelu
import firelu.torch
import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx", reason="the extra `test` installs it")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `test` installs it")
pytest.importorskip("onnxscript", reason="the extra `test` installs it")


class Filter(torch.nn.Module):
    def __init__(self, **arguments):
        super().__init__()
        self.register_buffer("kernel", torch.tensor([[1.0, 2.0, 3.0], [0.5, -1.0, 4.0]]) / 9)
        self.arguments = arguments

    def forward(self, x):
        return firelu.torch.upfirdn2d(x, self.kernel, **self.arguments)


class WithoutBias(torch.nn.Module):
    def forward(self, x):
        return firelu.torch.fused_leaky_relu(firelu.torch.leaky_relu(x, 0.3), None, 0.1, 1.5)


MODELS = {
    "upsample": lambda: firelu.torch.UpFirDnUpsample([1, 3, 3, 1]),
    "downsample": lambda: firelu.torch.UpFirDnDownsample([1, 3, 3, 1]),
    "blur": lambda: firelu.torch.UpFirDnSmooth([1, 2, 1], kernel_size=3),
    "odd padding": lambda: Filter(up=(2, 3), down=(3, 2), pad=(3, 0, 1, 4), gain=2.0),
    "negative padding": lambda: Filter(pad=(-1, 2, 1, -2), flip_kernel=True),
    "fused": lambda: firelu.torch.FusedLeakyReLU(3),
    "without bias": WithoutBias,
    "chain": lambda: torch.nn.Sequential(
        torch.nn.Conv2d(3, 3, 3), firelu.torch.FusedLeakyReLU(3), firelu.torch.UpFirDnUpsample([1, 3, 3, 1])
    ),
}


def export(model, x, dynamic):
    shapes = ({0: torch.export.Dim("batch")},) if dynamic else None
    with warnings.catch_warnings():
        # The exporter's own; none of them is about what it is given.
        warnings.simplefilter("ignore")
        return torch.onnx.export(model, (x,), dynamo=True, dynamic_shapes=shapes, verbose=False)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_agrees(name, dynamic):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(2, 3, 9, 10)
    program = export(model, x, dynamic)
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    assert {node.domain for node in proto.graph.node} <= {"", "ai.onnx"}
    assert not proto.functions
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for batch in (2, 5) if dynamic else (2,):
        x = torch.randn(batch, 3, 9, 10)
        (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        np.testing.assert_allclose(result, model(x).detach().numpy(), rtol=1e-5, atol=1e-5)


def as_array(value):
    return value if isinstance(value, np.ndarray) else onnx.numpy_helper.to_array(value)


def test_the_node_tests_of_onnx_itself():
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        # The collection builds the cases of every operator; casts among them overflow on purpose.
        warnings.simplefilter("ignore")
        cases = [case for case in collect_testcases("LeakyRelu") if "expanded" not in case.name]
    assert len(cases) >= 3
    for case in cases:
        [node] = case.model.graph.node
        arguments = {attribute.name: attribute.f for attribute in node.attribute}
        for inputs, outputs in case.data_sets:
            [x], [expected] = ([as_array(value) for value in values] for values in (inputs, outputs))
            np.testing.assert_allclose(firelu.run_operator("LeakyRelu", x, **arguments), expected, rtol=1e-6)
