"""Learn together from time-stamped data that must not leave its owners."""

from importlib import import_module
from typing import Any

import lazy_loader

from cotempo.errors import nearest
from cotempo.federation.registry import announce

__version__ = "0.1.0"

# Names load when first used, so importing cotempo stays cheap; the list of them is `__init__.pyi`.
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name not in __all__ and not name.startswith("_"):
        home = next((f"cotempo.{each}" for each in FAMILIES if name in dir(import_module(f"cotempo.{each}"))), "")
        near = f"; it is {home}.{name}" if home else nearest(name, __all__)
        raise AttributeError(f"cotempo has no {name!r}{near}; cotempo methods lists all methods")
    return _load(name)


FAMILIES = ("events", "series", "social", "networks")
announce("cotempo.federation.mean", "cotempo.surveys.method", *(f"cotempo.{family}" for family in FAMILIES))
