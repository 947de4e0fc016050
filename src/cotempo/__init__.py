"""Learn together from time-stamped data that must not leave its owners."""

import lazy_loader

from cotempo.federation.registry import announce

__version__ = "0.1.0"

# Names load when first used, so importing cotempo stays cheap; the list of them is `__init__.pyi`.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

announce("cotempo.federation.mean", *(f"cotempo.{family}" for family in ("events", "series", "social", "networks")))
