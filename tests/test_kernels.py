"""The kernel makers, and what upsample2d and downsample2d refuse."""

from __future__ import annotations

from fractions import Fraction

import firelu
import numpy as np
import pytest
from firelu import kernels

MAKERS = [kernels.box, kernels.triangle, kernels.cubic, kernels.mitchell, kernels.lanczos]


@pytest.mark.parametrize("maker", MAKERS)
def test_every_phase_sums_alike(maker):
    for factor in (1, 2, 3, 4, 7, Fraction(3, 2), Fraction(2, 3), Fraction(1, 4)):
        taps, up = maker(factor), Fraction(factor).numerator
        assert taps.dtype == np.float32
        np.testing.assert_allclose(taps, taps[::-1], atol=1e-7)
        np.testing.assert_allclose([taps[phase::up].sum() for phase in range(up)], 1 / up, rtol=1e-6)


@pytest.mark.parametrize("maker", MAKERS)
def test_whole_factors_serve_both_ways(maker):
    flat = np.full((1, 24, 24), 5.0, np.float32)
    for factor in (2, 3, 4):
        kernel = firelu.make_kernel(maker(factor))
        larger, smaller = firelu.upsample2d(flat, kernel, factor), firelu.downsample2d(flat, kernel, factor)
        margin = 4 * factor
        np.testing.assert_allclose(larger[..., margin:-margin, margin:-margin], 5, rtol=1e-5)
        np.testing.assert_allclose(smaller[..., 3:-3, 3:-3], 5, rtol=1e-5)
        x = np.random.default_rng(0).standard_normal((24, 24)).astype(np.float32)
        inside = slice(margin, -margin), slice(margin, -margin)
        by_name = firelu.resample(x, factor, kernel=maker(factor))
        np.testing.assert_allclose(firelu.upsample2d(x, kernel, factor)[inside], by_name[inside], atol=1e-5)


def test_known_taps():
    np.testing.assert_allclose(kernels.box(3), [1 / 3] * 3, rtol=1e-7)
    np.testing.assert_allclose(kernels.triangle(2), [1 / 8, 3 / 8, 3 / 8, 1 / 8])
    np.testing.assert_allclose(kernels.box(Fraction(2, 3)), [1 / 6, 1 / 3, 1 / 3, 1 / 6], rtol=1e-6)
    twelve = [0.002029, 0.009389, -0.025543, -0.057657, 0.128573, 0.443210]
    np.testing.assert_allclose(kernels.kaiser(0.25, 0.3, 12), twelve + twelve[::-1], atol=5e-7)
    np.testing.assert_array_equal(kernels.by_name("lanczos", 3), kernels.lanczos(3))


def test_bad_makers():
    for call in [
        lambda: kernels.lanczos(0),
        lambda: kernels.lanczos(-2),
        lambda: kernels.lanczos(float("nan")),
        lambda: kernels.lanczos("2"),
        lambda: kernels.lanczos(2, lobes=0),
        lambda: kernels.lanczos(2, lobes=1.5),
        lambda: kernels.by_name("sinc", 2),
        lambda: kernels.by_name(3, 2),
        lambda: kernels.kaiser(0.6, 0.1, 12),
        lambda: kernels.kaiser(0.25, 0, 12),
        lambda: kernels.kaiser(0.25, 0.1, 0),
    ]:
        with pytest.raises(firelu.ArgumentError, match=r"got .*takes"):
            call()


def test_kernels_that_cannot_enlarge_are_refused():
    x = np.ones((8, 8), np.float32)
    kernel = firelu.make_kernel([1, 3, 3, 1])
    for factor in (3, 4, (2, 4), (4, 2), 10**9):
        with pytest.raises(firelu.ArgumentError, match=r"upsample2d: kernel: .*firelu\.kernels\.lanczos\("):
            firelu.upsample2d(x, kernel, factor)
    with pytest.raises(firelu.ArgumentError, match="some samples would be zero"):
        firelu.upsample2d(x, firelu.make_kernel([1]), 2)
    assert firelu.upsample2d(x, firelu.make_kernel([1, 2, 1]), 2).shape == (16, 16)
    assert firelu.upsample2d(x, kernel.astype(np.float16), (2, 1)).shape == (8, 16)
    # A learned kernel is its owner's affair.
    assert firelu.upsample2d(firelu.Tensor(x), firelu.Tensor(kernel, requires_grad=True), 4).shape == (32, 32)


@pytest.mark.parametrize("function", [firelu.upsample2d, firelu.downsample2d])
def test_plain_lists_must_be_normalised(function):
    x = np.ones((8, 8), np.float32)
    with pytest.raises(firelu.ArgumentError, match=r"64 times as bright.*make_kernel\(\[1, 3, 3, 1\]\)"):
        function(x, [1, 3, 3, 1])
    np.testing.assert_allclose(function(x, [1 / 8, 3 / 8, 3 / 8, 1 / 8])[2, 2], 1)
    assert function(x, np.ones((4, 4))).max() > 3  # an array says what it means
    with pytest.raises(firelu.ArgumentError, match="takes numbers"):
        function(x, ["a"])


@pytest.mark.parametrize("function", [firelu.upsample2d, firelu.downsample2d])
def test_colours_are_not_resampled(function):
    kernel = firelu.make_kernel([1, 3, 3, 1])
    for shape in [(16, 20, 3), (16, 20, 4)]:
        with pytest.raises(firelu.ShapeError, match=r"colours.*firelu\.resize.*x\[None\]"):
            function(np.ones(shape, np.float32), kernel)
        assert function(np.ones(shape, np.float32)[None], kernel).ndim == 4
    assert function(np.ones((512, 4, 4), np.float32), kernel).ndim == 3


@pytest.mark.parametrize("shape", [(16, 20, 3), (16, 20, 4)])
def test_colours_are_not_mixed(shape):
    kernel = firelu.make_kernel([1, 3, 3, 1])
    with pytest.raises(
        firelu.ShapeError, match=r"would filter across the colours.*: pass x\.transpose\(2, 0, 1\), or x"
    ):
        firelu.filter2d(np.ones(shape, np.float32), kernel)
    assert firelu.filter2d(np.ones(shape, np.float32)[None], kernel).shape == (1, *shape)
    assert firelu.filter2d(np.ones((512, 4, 4), np.float32), kernel).shape == (512, 4, 4)
