"""`python -m firelu` is the command `firelu`."""

import sys

from .cli import main

sys.exit(main())
