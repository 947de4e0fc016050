"""The author's vocabulary: everything a new method needs, in one import.

The contract is in `method`, the loop that drives it in `rounds`, the smallest complete method in `mean`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
