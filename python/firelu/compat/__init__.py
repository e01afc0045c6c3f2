"""Run unmodified basicsr, GFPGAN, CodeFormer and StyleGAN2-PyTorch style code on firelu.

>>> import firelu.compat
>>> with firelu.compat.install():
...     pass  # import and run the project here; without `with`, firelu stays until `uninstall()`
"""

from .install import Replaced, doctor, install, uninstall

__all__ = ["Replaced", "doctor", "install", "uninstall"]
