"""What the drop-in knows of the projects: a table of small objects, and none of them needs torch.

A recogniser looks at the globals of one module and gives findings: what it would replace there, or what it leaves alone
and why. Projects are told by the shape of what they define, since copies of them live under any name. To serve another
family of projects, write its recogniser and add it to `RECOGNISERS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from ..offering import is_offered
from .base import Finding, Recogniser, Replacements, left
from .classes import ACTIVATION, DOWNSAMPLE, SNAKE, UPSAMPLE, KnownModule
from .extensions import EXTENSIONS, FUSED_ACT, PLUGINS, UPFIRDN2D, Builder, Extension, PluginCache, VocoderLoader
from .functions import Form, KnownFunction

__all__ = ["EXTENSIONS", "PLUGINS", "RECOGNISERS", "Extension", "Finding", "Recogniser", "Replacements", "find"]

_BIAS_LEAKY_RELU = "input bias negative_slope scale"
_BIAS_ACT = "x|input b|bias dim act alpha gain clamp"
_UPFIRDN2D = "x|input f|filter up down padding flip_filter gain"
_FILTERED_LRELU = "x|input fu|filter_up fd|filter_down b|bias up down padding gain slope clamp flip_filter"
#: What chooses between kernel and formula: "ref" and "cuda" in the StyleGAN3 family, a bool in mmcv.
_SWITCH = "impl|use_custom_op"


def _family(operator: str, parameters: str) -> Iterator[KnownFunction]:
    """Give the public function of the StyleGAN3 family and mmcv, and the formula that they have for the CPU."""
    reference = f"_{operator}_ref"
    yield KnownFunction(operator, (Form(parameters, operator, _SWITCH),), ("_plugin", "_init", reference))
    yield KnownFunction(reference, (Form(parameters, operator),), (operator,))


RECOGNISERS: tuple[Recogniser, ...] = (
    Builder(),
    VocoderLoader(),
    PluginCache(),
    KnownFunction("fused_leaky_relu", (Form(_BIAS_LEAKY_RELU, "fused_leaky_relu", extension=FUSED_ACT),)),
    KnownFunction("fused_bias_leakyrelu", (Form(_BIAS_LEAKY_RELU, "fused_leaky_relu"),)),
    KnownFunction(
        "upfirdn2d_native",
        (
            Form(
                "input kernel up_x up_y down_x down_y pad_x0 pad_x1 pad_y0 pad_y1",
                "upfirdn2d_native",
                extension=UPFIRDN2D,
            ),
            Form("tensor kernel up down pad", "upfirdn2d_native of pairs"),
        ),
    ),
    *_family("bias_act", _BIAS_ACT),
    *_family("upfirdn2d", _UPFIRDN2D),
    *_family("filtered_lrelu", _FILTERED_LRELU),
    ACTIVATION,
    SNAKE,
    UPSAMPLE,
    DOWNSAMPLE,
)
_BY_NAME: dict[str, list[Recogniser]] = {}
for _recogniser in RECOGNISERS:
    for _name in _recogniser.names:
        _BY_NAME.setdefault(_name, []).append(_recogniser)
#: What the names of known classes end with.
_ENDINGS = tuple({name for known in RECOGNISERS if isinstance(known, KnownModule) for name in known.names})


def find(module: ModuleType) -> Iterator[Finding]:
    """Look at a module with every recogniser; whatever is odd about it becomes a finding."""
    # A module that is loaded on first use is not loaded by looking.
    namespace = object.__getattribute__(module, "__dict__")
    names = _BY_NAME.keys() & namespace.keys()
    if "torch" in namespace or "nn" in namespace:  # who defines modules has one of these
        longer = [name for name in list(namespace) if isinstance(name, str) and name.endswith(_ENDINGS)]
        names |= {ending for ending in _ENDINGS if any(name.endswith(ending) for name in longer)}
    if not names or str(namespace.get("__name__")).partition(".")[0] == "firelu" or is_offered(module):
        return
    present = [recogniser for name in sorted(names) for recogniser in _BY_NAME[name]]
    for recogniser in dict.fromkeys(present):
        try:
            yield from list(recogniser.find(module))
        except Exception as error:
            name = next(name for name in recogniser.names if name in names)
            yield left(f"{namespace.get('__name__')}.{name}", f"looking at it raised {error!r}")
