"""One call of everything, small, for a run under valgrind: from numpy through the bridge to the kernels."""

from __future__ import annotations

import contextlib

import firelu
import numpy as np

K = np.outer([1, 3, 3, 1], [1, 3, 3, 1]).astype(np.float32) / 64
ROUGH = K + np.eye(4, dtype=np.float32)


def main() -> None:
    calls = 0
    for level in firelu.cpu_levels():
        firelu.set_cpu_level(level)
        for dtype in (np.float16, np.float32, np.float64):
            for width in (1, 7, 8, 17, 33):
                x = np.linspace(-1, 1, 2 * 3 * 5 * width).astype(dtype).reshape(2, 3, 5, width)
                for view in (
                    x,
                    x[:, ::-1],
                    x[..., ::-1],
                    np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
                ):
                    y = firelu.fused_leaky_relu(view, np.ones(3, dtype))
                    firelu.fused_leaky_relu_gradient(y, view)
                    firelu.leaky_relu_gradient(y, view, out=firelu.leaky_relu(view))
                    for kernel in (K, ROUGH):
                        z = firelu.upfirdn2d(view, kernel, up=2, down=1, pad=(2, 1))
                        firelu.upfirdn2d_gradient(z, kernel, view.shape, up=2, down=1, pad=(2, 1))
                        firelu.upfirdn2d_kernel_gradient(view, z, kernel.shape, up=2, down=1, pad=(2, 1))
                    firelu.run_operator("ReduceSum", view, axes=[0, 2])
                    calls += 11
    big = np.ones((1, 4, 300, 300), np.float32)
    firelu.set_num_threads(2)
    for _ in range(3):
        firelu.leaky_relu(big)
        firelu.upfirdn2d(big, K, pad=(2, 1))
        calls += 2
    for bad in (np.arange(3), [[1.0], [2.0, 3.0]]):
        with contextlib.suppress(firelu.FireluError):
            firelu.leaky_relu(bad)
        calls += 1
    print(f"{calls} calls: whole path done")


if __name__ == "__main__":
    main()
