"""Run unmodified basicsr, GFPGAN, CodeFormer and StyleGAN2-PyTorch style code on firelu.

>>> import firelu.compat
>>> with firelu.compat.install():
...     pass  # import and run the project here; without `with`, firelu stays until `uninstall()`

``python -m firelu.compat script.py arguments`` does the same for a whole program.
"""

from .install import Replaced, install, uninstall
from .status import doctor, status

__all__ = ["Replaced", "doctor", "install", "status", "uninstall"]
