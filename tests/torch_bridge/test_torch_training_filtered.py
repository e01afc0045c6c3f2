"""A vocoder with filtered activations learns the same with the drop-in as with its own formulas."""

import pytest

torch = pytest.importorskip("torch")

from firelu import compat  # noqa: E402
from firelu.bench.dropin import load_networks  # noqa: E402

STEPS = 2


def losses(make, x):
    """Train a network that starts from the same numbers, and give the loss before each step and after the last."""
    torch.manual_seed(0)
    network = make()
    optimizer = torch.optim.SGD(network.parameters(), 1e-3)
    result = []
    for _ in range(STEPS + 1):
        optimizer.zero_grad()
        loss = (network(x) - 0.5).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        result.append(float(loss.detach()))
    return result


def test_the_losses_of_some_steps_are_those_of_the_plain_formulas():
    make, narrow = load_networks().Vocoder, 1 / 16
    torch.manual_seed(1)
    x = torch.randn(1, 100, 4)
    plain = losses(lambda: make(narrow), x)
    with compat.install():
        ours = losses(lambda: make(narrow), x)
        assert not compat.status()["fallbacks"]
    assert len(set(plain)) == STEPS + 1
    assert ours == pytest.approx(plain, rel=1e-4)
