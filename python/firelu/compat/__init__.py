"""Run unmodified code of the StyleGAN2 and StyleGAN3 families, of vocoders and of related projects on firelu.

>>> import firelu.compat
>>> with firelu.compat.install():
...     pass  # import and run the project here; without `with`, firelu stays until `uninstall()`

``python -m firelu.compat script.py arguments`` does the same for a whole program.
"""

from .install import Replaced, install, uninstall
from .pickles import load_pickle
from .status import doctor, status

__all__ = ["Replaced", "doctor", "install", "load_pickle", "status", "uninstall"]
