"""Learn a low-rank matrix from some of its entries, under any loss, with posterior variances.

The public names are listed in ``__init__.pyi`` and load on first use: importing all of them takes seconds, for Numba,
SciPy and scikit-learn, and the help of the command line needs none of them.
"""

import lazy_loader

from ._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
