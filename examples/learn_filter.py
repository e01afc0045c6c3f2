"""Learn a filter from what it does: gradient descent through UpFirDn2d and FusedLeakyRelu, with numpy alone.

A hidden 2-D FIR kernel and bias turn noise into outputs; a kernel and bias that start from nothing are
fitted until they do the same. Run it with ``python examples/learn_filter.py``.
"""

import firelu
import numpy as np
from firelu.nn import functional


def learn(steps: int = 300, rate: float = 0.5, seed: int = 0) -> tuple[float, float, list[float]]:
    """Fit kernel and bias; give the largest error of each and the losses."""
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(4, 3, 16, 16))
    hidden_kernel = firelu.make_kernel([1, 3, 3, 1]).astype(np.float64) * 4
    hidden_bias = np.array([0.5, -0.25, 0.1])
    resample = {"up": 2, "down": 1, "pad": (2, 1)}
    target = firelu.fused_leaky_relu(firelu.upfirdn2d(images, hidden_kernel, **resample), hidden_bias)

    kernel = firelu.Tensor(0.1 * rng.normal(size=hidden_kernel.shape), requires_grad=True)
    bias = firelu.Tensor(np.zeros(3), requires_grad=True)
    x = firelu.Tensor(images)
    losses = []
    for _ in range(steps):
        difference = functional.fused_leaky_relu(functional.upfirdn2d(x, kernel, **resample), bias) - target
        loss = (difference * difference).mean()
        loss.backward()
        losses.append(loss.item())
        for parameter in (kernel, bias):
            parameter.numpy()[...] -= rate * parameter.grad.numpy()
            parameter.grad = None
    kernel_error = np.abs(kernel.numpy() - hidden_kernel).max()
    return kernel_error, np.abs(bias.numpy() - hidden_bias).max(), losses


def main() -> None:
    kernel_error, bias_error, losses = learn()
    print(f"loss: {losses[0]:.3g} at the start, {losses[-1]:.3g} after {len(losses)} steps")
    print(f"largest error of the kernel: {kernel_error:.2g}, of the bias: {bias_error:.2g}")


if __name__ == "__main__":
    main()
