"""Every registered operator as a torch operator: values, strides, dtypes, opcheck, derivatives."""

from __future__ import annotations

import subprocess
import sys

import firelu
import firelu.torch
import numpy as np
import pytest
import torch
from torch_samples import SAMPLES, Sample, names

every_sample = pytest.mark.parametrize("sample", SAMPLES, ids=names)


def test_every_registered_operator_has_samples():
    # A process of its own knows no operators but the built-in ones.
    program = "import firelu; print(*firelu.operators())"
    built_in = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert {sample.operator for sample in SAMPLES} == set(built_in.split())


@every_sample
# opcheck itself looks at the gradient of copies it has made.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_opcheck(sample: Sample):
    arguments = sample.arguments(torch.float32, requires_grad=True)
    torch.library.opcheck(sample.overload, arguments)


@every_sample
def test_gradcheck_and_gradgradcheck(sample: Sample):
    arguments = sample.arguments(torch.float64, requires_grad=True)
    function, tensors = sample.function_of_tensors(arguments)
    assert tensors
    assert torch.autograd.gradcheck(function, tensors)
    assert torch.autograd.gradgradcheck(function, tensors)


@every_sample
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_values_equal_those_of_numpy(sample: Sample, dtype: torch.dtype):
    arguments = sample.arguments(dtype)
    results = sample.overload(*arguments)
    expected = sample.with_numpy(arguments)
    results = results if isinstance(results, tuple) else (results,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, array in zip(results, expected, strict=True):
        assert result.dtype == dtype
        bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[result.element_size()]
        np.testing.assert_array_equal(
            result.contiguous().view(bits).numpy(), np.ascontiguousarray(array).view(f"i{result.element_size()}")
        )


@every_sample
def test_outputs_never_alias_inputs(sample: Sample):
    arguments = sample.arguments(torch.float32)
    results = sample.overload(*arguments)
    _, tensors = sample.function_of_tensors(sample.arguments(torch.float32))
    memory = {tensor.data_ptr() for tensor in tensors}
    for result in results if isinstance(results, tuple) else (results,):
        assert result.data_ptr() not in memory or result.numel() == 0


@every_sample
def test_a_wrong_dtype_is_refused_by_name(sample: Sample):
    arguments = [
        value.to(torch.int32) if isinstance(value, torch.Tensor) else value for value in sample.arguments(torch.float32)
    ]
    if isinstance(arguments[0], list):
        arguments[0] = [value.to(torch.int32) for value in arguments[0]]
    with pytest.raises(firelu.DTypeError, match=f"{sample.operator}: .*: got int32, takes float16"):
        sample.overload(*arguments)
