"""One process of several: runs every check beside its peers and writes what came of each.

Called as ``distributed_worker.py RANK PROCESSES FOLDER``. Every process also does the whole work alone, and compares.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import firelu.torch as ft
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch_samples import SAMPLES, names

#: The checks by name, in the order they run in.
CHECKS: dict[str, Any] = {}
#: What takes long, and shows no more with a third process.
OF_TWO = {"dtensor_compiled"}
#: Divisible by two and by three.
BATCH, CHANNELS = 6, 12


def check(function):
    CHECKS[function.__name__] = function
    return function


class Network(nn.Module):
    """Every operator that a model uses, with a bias and a FIR kernel to learn."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.activation = ft.FusedLeakyReLU(CHANNELS)
        self.kernel = nn.Parameter(torch.rand(4, 4))
        self.down = ft.UpFirDnDownsample([1, 3, 3, 1])
        self.up = ft.UpFirDnUpsample([1, 3, 3, 1])
        self.last = nn.Conv2d(CHANNELS, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.activation(self.first(x))
        x = ft.upfirdn2d(x, self.kernel, pad=(2, 1))
        return self.last(ft.leaky_relu(self.up(self.down(x)), 0.1))


def make() -> Network:
    torch.manual_seed(0)
    return Network().double()


def train(model: nn.Module, rank: int = 0, processes: int = 1, penalised: bool = False) -> None:
    """Three steps on this process' part of the batch."""
    optimiser = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        pictures = torch.randn(BATCH, 3, 8, 8, dtype=torch.float64, generator=generator)
        pictures = pictures.chunk(processes)[rank].requires_grad_(penalised)
        scores = model(pictures)
        loss = scores.square().mean()
        if penalised:
            # A second derivative runs through every operator.
            (slope,) = torch.autograd.grad(scores.sum(), pictures, create_graph=True)
            loss = loss + slope.square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def same_parameters(expected: nn.Module, got: nn.Module) -> None:
    for (name, one), other in zip(expected.named_parameters(), got.parameters(), strict=True):
        whole = other.full_tensor() if hasattr(other, "full_tensor") else other
        torch.testing.assert_close(whole, one, msg=lambda text, name=name: f"{name}: {text}")


@check
def ddp(mesh: DeviceMesh, folder: Path) -> None:
    alone, model = make(), make()
    train(alone)
    train(nn.parallel.DistributedDataParallel(model), mesh.get_rank(), mesh.size())
    same_parameters(alone, model)


@check
def ddp_with_a_gradient_penalty(mesh: DeviceMesh, folder: Path) -> None:
    alone, model = make(), make()
    train(alone, penalised=True)
    train(nn.parallel.DistributedDataParallel(model), mesh.get_rank(), mesh.size(), penalised=True)
    same_parameters(alone, model)


def sharded(mesh: DeviceMesh) -> Network:
    from torch.distributed.fsdp import fully_shard

    model = make()
    for layer in (model.first, model.activation, model.last):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


@check
def fsdp2(mesh: DeviceMesh, folder: Path) -> None:
    alone, model = make(), sharded(mesh)
    assert model.activation.bias.placements == (Shard(0),)
    assert model.activation.bias.to_local().shape == (CHANNELS // mesh.size(),)
    train(alone)
    train(model, mesh.get_rank(), mesh.size())
    same_parameters(alone, model)


@check
def fsdp2_checkpoint(mesh: DeviceMesh, folder: Path) -> None:
    """What one set of processes has saved, another set and a single process read."""
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict

    model = sharded(mesh)
    train(model, mesh.get_rank(), mesh.size())
    checkpoint.save(get_model_state_dict(model), checkpoint_id=folder / "checkpoint")
    again = sharded(mesh)
    state = get_model_state_dict(again)
    checkpoint.load(state, checkpoint_id=folder / "checkpoint")
    set_model_state_dict(again, state)
    alone = make()
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=False))
    # The FIR kernels are no part of it: the names are those of existing checkpoints.
    assert set(whole) == {"kernel", "activation.bias", "first.weight", "first.bias", "last.weight", "last.bias"}
    alone.load_state_dict(whole)
    same_parameters(alone, model)
    same_parameters(alone, again)


def derivatives(function: Any, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The value, and first and second derivatives of sums of squares."""
    value = function(*tensors)
    first = torch.autograd.grad(value.square().sum(), tensors, create_graph=True)
    second = torch.autograd.grad(sum(gradient.square().sum() for gradient in first), tensors)
    return [value, *first, *second]


def compare(function: Any, tensors: list[torch.Tensor], split: list[torch.Tensor]) -> None:
    expected = derivatives(function, [tensor.detach().requires_grad_() for tensor in tensors])
    got = derivatives(function, [tensor.detach().requires_grad_() for tensor in split])
    for one, other in zip(expected, got, strict=True):
        torch.testing.assert_close(other.full_tensor(), one)


def pictures(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


@check
def dtensor_filters(mesh: DeviceMesh, folder: Path) -> None:
    """Batch and channels are split without a word between the processes; height and width are put together."""
    x, kernel = pictures(BATCH, CHANNELS, 7, 9), pictures(3, 4)
    whole_kernel = distribute_tensor(kernel, mesh, [Replicate()])
    for dim in range(4):
        split = distribute_tensor(x, mesh, [Shard(dim)])
        for settings in ({"up": 2, "pad": (2, 1)}, {"down": (2, 3), "pad": 2}, {"pad": (-1, 2), "flip_kernel": True}):

            def filtered(x, kernel, settings=settings):
                return ft.upfirdn2d(x, kernel, **settings)

            with CommDebugMode() as words:
                y = filtered(split, whole_kernel)
            assert (y.placements == (Shard(dim),)) == (dim < 2), (dim, y.placements)
            assert (words.get_total_counts() == 0) == (dim < 2)
            compare(filtered, [x, kernel], [split, whole_kernel])


@check
def dtensor_kernel_gradient(mesh: DeviceMesh, folder: Path) -> None:
    """The kernel's gradient stays a partial sum until somebody asks for it."""
    x, kernel = pictures(BATCH, 2, 5, 5), pictures(2, 2)
    for dim in (0, 1):
        if x.shape[dim] < mesh.size():
            continue
        whole = distribute_tensor(kernel, mesh, [Replicate()]).requires_grad_()
        split = distribute_tensor(x, mesh, [Shard(dim)])
        with CommDebugMode() as words:
            y = ft.upfirdn2d(split, whole)
            (gradient,) = torch.autograd.grad(y, whole, torch.ones_like(y))
        assert gradient.placements == (Partial(),)
        assert words.get_total_counts() == 0


@check
def dtensor_activation(mesh: DeviceMesh, folder: Path) -> None:
    x, bias = pictures(BATCH, CHANNELS, 4, 5), pictures(CHANNELS)
    for dim in range(4):
        split = distribute_tensor(x, mesh, [Shard(dim)])
        split_bias = distribute_tensor(bias, mesh, [Shard(0) if dim == 1 else Replicate()])
        if x.shape[dim] >= mesh.size():
            leaf = split_bias.detach().requires_grad_()
            with CommDebugMode() as words:
                y = ft.fused_leaky_relu(split, leaf)
                (gradient,) = torch.autograd.grad(y, leaf, torch.ones_like(y))
            assert y.placements == (Shard(dim),)
            assert gradient.placements == ((Shard(0) if dim == 1 else Partial()),)
            assert words.get_total_counts() == 0
        for settings in ({}, {"negative_slope": -0.5}, {"scale": -1.0}):

            def activated(x, bias, settings=settings):
                return ft.fused_leaky_relu(x, bias, **settings)

            compare(activated, [x, bias], [split, split_bias])
        # A bias that does not fit the split of its input is moved.
        other = distribute_tensor(bias, mesh, [Replicate() if dim == 1 else Shard(0)])
        compare(ft.fused_leaky_relu, [x, bias], [split, other])
        compare(lambda x: ft.leaky_relu(ft.fused_leaky_relu(x), 0.3), [x], [split])


@check
def dtensor_unequal_parts(mesh: DeviceMesh, folder: Path) -> None:
    x, bias, kernel = pictures(4, 5, 6, 6), pictures(5), pictures(3, 3)
    for dim in (0, 1):
        split = distribute_tensor(x, mesh, [Shard(dim)])
        whole = [distribute_tensor(tensor, mesh, [Replicate()]) for tensor in (bias, kernel)]

        def both(x, bias, kernel):
            return ft.upfirdn2d(ft.fused_leaky_relu(x, bias), kernel, up=2, pad=1)

        compare(both, [x, bias, kernel], [split, *whole])


@check
def dtensor_remembers_by_shape(mesh: DeviceMesh, folder: Path) -> None:
    """Inputs of two sizes, outputs of one size: the gradients are not taken for each other."""
    kernel = pictures(3, 3)
    for size in (8, 7):
        x = pictures(BATCH, 2, size, size)
        split = [distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(kernel, mesh, [Replicate()])]
        compare(lambda x, kernel: ft.upfirdn2d(x, kernel, down=2), [x, kernel], split)
    for taps in (3, 4):
        x, kernel = pictures(BATCH, 2, 8, 8), pictures(taps, taps)
        split = [distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(kernel, mesh, [Replicate()])]
        compare(lambda x, kernel: ft.upfirdn2d(x, kernel, down=2), [x, kernel], split)


@check
def dtensor_every_operator(mesh: DeviceMesh, folder: Path) -> None:
    """Every registered operator, its first tensor split along each dimension and the others whole."""
    for sample in SAMPLES:
        arguments = sample.arguments(torch.float64)
        expected = sample.overload(*arguments)
        first = arguments[0][0] if isinstance(arguments[0], list) else arguments[0]
        for dim in range(first.dim()):
            placed = []
            for place, value in enumerate(arguments):
                placement = [Shard(dim) if place == 0 else Replicate()]
                if isinstance(value, torch.Tensor):
                    value = distribute_tensor(value, mesh, placement)
                elif isinstance(value, list) and value and isinstance(value[0], torch.Tensor):
                    value = [distribute_tensor(item, mesh, placement) for item in value]
                placed.append(value)
            got = sample.overload(*placed)
            for one, other in zip(_tuple(expected), _tuple(got), strict=True):
                torch.testing.assert_close(
                    other.full_tensor(), one, msg=lambda text, s=sample, d=dim: f"{names(s)}, dim {d}: {text}"
                )


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@check
def dtensor_module(mesh: DeviceMesh, folder: Path) -> None:
    """A bias split over the processes, between two split linear layers."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    def mapping() -> nn.Sequential:
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(8, CHANNELS), ft.FusedLeakyReLU(CHANNELS), nn.Linear(CHANNELS, 4)).double()

    def split_bias(name: str, module: nn.Module, mesh: DeviceMesh) -> None:
        module.register_parameter("bias", nn.Parameter(distribute_tensor(module.bias, mesh, [Shard(0)])))

    alone, model = mapping(), mapping()
    parallelize_module(model, mesh, {"0": ColwiseParallel(use_local_output=False), "2": RowwiseParallel()})
    distribute_module(model[1], mesh, split_bias)
    x = pictures(BATCH, 8)
    for network in (alone, model):
        optimiser = torch.optim.SGD(network.parameters(), 0.1)
        for _ in range(2):
            optimiser.zero_grad()
            network(x).square().mean().backward()
            optimiser.step()
    same_parameters(alone, model)
    with torch.inference_mode():
        torch.testing.assert_close(model(x), alone(x))


@check
def dtensor_on_a_mesh_of_two_dimensions(mesh: DeviceMesh, folder: Path) -> None:
    two = init_device_mesh("cpu", (mesh.size(), 1))
    x, bias, kernel = pictures(BATCH, CHANNELS, 6, 6), pictures(CHANNELS), pictures(3, 3)
    split = [
        distribute_tensor(x, two, [Shard(0), Shard(1)]),
        distribute_tensor(bias, two, [Replicate(), Shard(0)]),
        distribute_tensor(kernel, two, [Replicate(), Replicate()]),
    ]

    def both(x, bias, kernel):
        return ft.upfirdn2d(ft.fused_leaky_relu(x, bias), kernel, pad=1)

    assert both(*split).placements == (Shard(0), Shard(1))
    compare(both, [x, bias, kernel], split)


@check
def dtensor_compiled(mesh: DeviceMesh, folder: Path) -> None:
    x, bias, kernel = pictures(BATCH, CHANNELS, 6, 6), pictures(CHANNELS), pictures(3, 3)

    def both(x, bias, kernel):
        return ft.upfirdn2d(ft.fused_leaky_relu(x, bias), kernel, pad=1)

    split = [
        distribute_tensor(x, mesh, [Shard(1)]),
        distribute_tensor(bias, mesh, [Shard(0)]),
        distribute_tensor(kernel, mesh, [Replicate()]),
    ]
    leaves = [tensor.requires_grad_() for tensor in split]
    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    got = torch.autograd.grad(compiled(*leaves).square().sum(), leaves)
    whole = [tensor.requires_grad_() for tensor in (x, bias, kernel)]
    expected = torch.autograd.grad(both(*whole).square().sum(), whole)
    for one, other in zip(expected, got, strict=True):
        torch.testing.assert_close(other.full_tensor(), one)


def main(rank: int, processes: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=processes)
    mesh = init_device_mesh("cpu", (processes,))
    for name, function in CHECKS.items():
        if name in OF_TWO and processes > 2:
            continue
        try:
            function(mesh, folder)
            outcome = ""
        except Exception:
            outcome = traceback.format_exc()
        (folder / f"{name}.{rank}").write_text(outcome, encoding="utf-8")
        if outcome:
            sys.exit(1)  # The others may wait for this process inside the check, and are ended from outside.
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
