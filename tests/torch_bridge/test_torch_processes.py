"""Other processes: DataLoader workers by fork and by spawn, FSDP2."""

from __future__ import annotations

import firelu.torch as ft
import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Filtered(Dataset):
    """Pictures that a worker filters; each is large enough for the pool and for threads."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        picture = torch.full((3, 512, 512), float(index))
        return ft.upfirdn2d(picture, torch.ones(2, 2) / 4, pad=(1, 0)), torch.get_num_threads()


@pytest.mark.parametrize("method", ["fork", "spawn"])
# Python warns of fork beside threads, which is what is tested here.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_data_loader_workers(method):
    ft.leaky_relu(torch.randn(4, 1024, 1024))  # Threads and pooled memory exist before the fork.
    loader = DataLoader(Filtered(), batch_size=2, num_workers=1, multiprocessing_context=method, timeout=120)
    seen = list(loader)
    for batch, (pictures, threads) in enumerate(seen):
        assert threads.tolist() == [1, 1]
        for offset in range(2):
            inner = pictures[offset, :, 1:, 1:]
            assert torch.equal(inner, torch.full_like(inner, 2.0 * batch + offset))


@pytest.fixture
def process_group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.skipif(torch.__version__.startswith("2.6."), reason="torch 2.6's FSDP2 takes no CPU")
def test_fsdp2_trains_as_without(process_group):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def make():
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1),
            ft.FusedLeakyReLU(8),
            ft.UpFirDnDownsample([1, 3, 3, 1]),
            torch.nn.Conv2d(8, 1, 1),
        )

    plain, sharded = make(), make()
    mesh = init_device_mesh("cpu", (1,))
    for layer in sharded:
        if any(True for _ in layer.parameters()):
            fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    for model in (plain, sharded):
        optimiser = torch.optim.SGD(model.parameters(), 0.1)
        torch.manual_seed(1)
        for _ in range(2):
            optimiser.zero_grad()
            # The activations are large enough to come from the pool.
            model(torch.randn(2, 3, 256, 256)).square().mean().backward()
            optimiser.step()
    for expected, got in zip(plain.parameters(), sharded.parameters(), strict=True):
        torch.testing.assert_close(got.full_tensor(), expected)
