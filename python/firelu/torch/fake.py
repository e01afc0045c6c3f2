"""Fake kernels: shapes, strides and dtypes without memory, for meta tensors, compile and export.

Plain sizes go to the registry's own inference, with its checks and messages. Symbolic sizes need formulas that
Python can evaluate on symbols: `_SHAPES` has one for each built-in operator whose output is not like its first input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .bridge import Bridged

Size = Any  # int or torch.SymInt
Kind = tuple[tuple[Size, ...], torch.dtype]
Described = Sequence[tuple[Sequence[Size], Sequence[Size], torch.dtype]]
ShapeRule = Callable[[list[Kind | None], tuple[Any, ...]], list[Kind | None]]


def kernel(bridged: Bridged) -> Callable[..., Any]:
    """Make the fake kernel of an operator."""

    def fake(*arguments: Any) -> Any:
        complete = bridged.signature.complete(arguments)
        first = next(tensor for tensor in bridged.signature.tensors(complete) if tensor is not None)
        if _is_symbolic(bridged, complete) and has_formula(bridged):
            described: Described = symbolic(bridged, complete)
        else:
            # An operator of the user's own: reading a symbol as a number specialises the graph to it.
            described = bridged.kernel.infer(*arguments)
        outputs = tuple(first.new_empty_strided(shape, strides, dtype=dtype) for shape, strides, dtype in described)
        return outputs[0] if len(outputs) == 1 else outputs

    return fake


def has_formula(bridged: Bridged) -> bool:
    """Tell whether an operator's shapes are known on symbols."""
    return bridged.schema.identical_type_and_shape or bridged.schema.name in _SHAPES


def _is_symbolic(bridged: Bridged, arguments: list[Any]) -> bool:
    sizes: list[Any] = []
    for tensor in bridged.signature.tensors(arguments):
        if tensor is not None:
            sizes += [*tensor.shape, *tensor.stride()]
    for spec, place in zip(bridged.signature.inputs, bridged.signature.places, strict=True):
        if spec.shape_only and arguments[place] is not None:
            sizes += arguments[place]
    return any(isinstance(size, torch.SymInt) for size in sizes)


def symbolic(bridged: Bridged, arguments: list[Any]) -> Described:
    """Give shape, strides and dtype of each output; sizes may be symbols."""
    signature = bridged.signature
    tensors = signature.tensors(arguments)
    kinds: list[Kind | None] = [None if t is None else (tuple(t.shape), t.dtype) for t in tensors]
    for index, (spec, place) in enumerate(zip(signature.inputs, signature.places, strict=True)):
        if spec.shape_only and arguments[place] is not None:
            kinds[index] = (tuple(arguments[place]), arguments[place + 1])
    rule = _like_first if bridged.schema.identical_type_and_shape else _SHAPES[bridged.schema.name]
    outputs = rule(kinds, signature.constants(arguments))
    names = [spec.name for spec in signature.inputs]
    layout = bridged.schema.layout_of
    like = tensors[names.index(layout)] if layout in names else None
    absent: Kind = ((0,), next(kind for kind in kinds if kind is not None)[1])
    described = []
    for output, wanted in zip(outputs, signature.wanted(arguments), strict=True):
        shape, dtype = output if output is not None and wanted else absent
        described.append((shape, dense_strides(shape, like), dtype))
    return described


def dense_strides(shape: Sequence[Size], like: Any) -> list[Size]:
    """Give the strides of a dense tensor in the memory order of another, as the kernels lay out their outputs."""
    row_major = _strides_in_order(shape, range(len(shape)))
    if like is None or like.dim() != len(shape):
        return row_major
    strides = like.stride()
    if all(a == b for a, b in zip(strides, _strides_in_order(like.shape, range(like.dim())), strict=True)):
        return row_major
    if any(stride == 0 and size > 1 for stride, size in zip(strides, shape, strict=True)):
        return row_major
    places = [place for place, size in enumerate(shape) if size != 1]
    moved = iter(sorted(places, key=lambda place: strides[place], reverse=True))
    # A dimension of one stays where it is; the others take the remaining places in the order of their strides.
    return _strides_in_order(shape, [next(moved) if size != 1 else place for place, size in enumerate(shape)])


def _strides_in_order(shape: Sequence[Size], order: Sequence[int]) -> list[Size]:
    strides: list[Size] = [0] * len(shape)
    step: Size = 1
    for place in reversed(order):
        strides[place] = step
        size = shape[place]
        step = step * (max(size, 1) if isinstance(size, int) else torch.sym_max(size, 1))
    return strides


def _check(condition: Any, operator: str, argument: str, got: Any, takes: Any) -> None:
    torch._check(condition, lambda: f"{operator}: {argument}: got {got}, takes {takes}")


def _present(kinds: list[Kind | None], place: int) -> Kind:
    kind = kinds[place]
    if kind is None:
        raise RuntimeError(f"input {place} is required")
    return kind


def _like_first(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    first = _present(kinds, 0)
    for kind in kinds[1:]:
        if kind is not None:
            _same_shape(kind[0], first[0])
    return [first]


def _same_shape(shape: Sequence[Size], expected: Sequence[Size]) -> None:
    same_rank = len(shape) == len(expected)
    _check(same_rank, "firelu", "shape", tuple(shape), tuple(expected))
    for size, wanted in zip(shape, expected, strict=True):
        _check(size == wanted, "firelu", "shape", tuple(shape), tuple(expected))


def _fused(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    (shape, dtype), axis = _present(kinds, 0), constants[2]
    for bias in kinds[1:]:
        if bias is not None:
            _same_shape(bias[0], (shape[axis],))
    return [(shape, dtype)]


def _fused_gradient(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    y, dy, bias, like = _present(kinds, 0), kinds[1], kinds[2], kinds[3]
    shape, axis = y[0], constants[2]
    if dy is not None:
        _same_shape(dy[0], shape)
    if not -len(shape) <= axis < len(shape):
        return [y, None]
    for given in (bias, like):
        # What lends only its type may come without a length.
        if given is not None and (given is bias or given[0]):
            _same_shape(given[0], (shape[axis],))
    return [y, ((shape[axis],), (like or bias or y)[1])]


def _upfirdn2d_size(size: Size, taps: Size, up: int, down: int, pad: Sequence[int]) -> Size:
    span = size * up + pad[0] + pad[1]
    _check(span >= taps, "UpFirDn2d", "X", span, f"at least {taps}, the kernel's length, after padding")
    return (span - taps) // down + 1


def _upfirdn2d_output(x: Sequence[Size], k: Sequence[Size], constants: tuple[Any, ...]) -> tuple[Size, ...]:
    up_x, up_y, down_x, down_y, x0, x1, y0, y1, *_ = constants
    _check(len(x) >= 2, "UpFirDn2d", "X", tuple(x), "at least two dimensions")
    _check(len(k) == 2, "UpFirDn2d", "K", tuple(k), "two dimensions")
    height = _upfirdn2d_size(x[-2], k[0], up_y, down_y, (y0, y1))
    width = _upfirdn2d_size(x[-1], k[1], up_x, down_x, (x0, x1))
    return (*x[:-2], height, width)


def _upfirdn2d(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    x, k = _present(kinds, 0), _present(kinds, 1)
    return [(_upfirdn2d_output(x[0], k[0], constants), x[1])]


def _upfirdn2d_gradient(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    dy, k, x = (_present(kinds, place) for place in range(3))
    # The last two lengths alone stand for an X with the other dimensions of dY.
    shape = (*dy[0][:-2], *x[0]) if len(x[0]) == 2 else x[0]
    _same_shape(dy[0], _upfirdn2d_output(shape, k[0], constants))
    return [(shape, dy[1])]


def _upfirdn2d_kernel_gradient(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    x, dy, k = (_present(kinds, place) for place in range(3))
    _same_shape(dy[0], _upfirdn2d_output(x[0], k[0], constants))
    return [k]


def _broadcast(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    a, b = _present(kinds, 0), _present(kinds, 1)
    rank = max(len(a[0]), len(b[0]))
    padded = [(1,) * (rank - len(shape)) + shape for shape, _ in (a, b)]
    sizes = [second if first == 1 else first for first, second in zip(*padded, strict=True)]
    for one, other, size in zip(*padded, sizes, strict=True):
        _check((one == size or one == 1) and (other == size or other == 1), "firelu", "B", b[0], f"to fit {a[0]}")
    return [(tuple(sizes), a[1])]


def _reduce_sum(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    (shape, dtype), like = _present(kinds, 0), kinds[1]
    axes, keepdims, _ = constants
    if like is not None:
        return [(like[0], dtype)]
    summed = {axis % len(shape) for axis in axes} if axes else set(range(len(shape)))
    left = [1 if place in summed else size for place, size in enumerate(shape) if keepdims or place not in summed]
    return [(tuple(left), dtype)]


def _broadcast_like(kinds: list[Kind | None], constants: tuple[Any, ...]) -> list[Kind | None]:
    return [(_present(kinds, 1)[0], _present(kinds, 0)[1])]


_SHAPES: dict[str, ShapeRule] = {
    "FusedLeakyRelu": _fused,
    "FusedLeakyReluGradient": _fused_gradient,
    "UpFirDn2d": _upfirdn2d,
    "UpFirDn2dGradient": _upfirdn2d_gradient,
    "UpFirDn2dKernelGradient": _upfirdn2d_kernel_gradient,
    "Add": _broadcast,
    "Sub": _broadcast,
    "Mul": _broadcast,
    "ReduceSum": _reduce_sum,
    "BroadcastLike": _broadcast_like,
}
