"""`Saved`, the base of fitted objects that are written to one file; `read_object` reads it back, without pickle."""

import dataclasses
import importlib
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cotempo.errors import RunError
from cotempo.settings import Settings
from cotempo.storage.files import write_whole
from cotempo.storage.tree import TreeError, decode, encode


class Saved:
    """Something fitted that can be saved.

    A subclass keeps every parameter of its constructor under the parameter's own name: the file holds those attributes
    as they are when `save` is called, and `cotempo.load` calls the constructor with them.
    """

    packages: ClassVar[set[str]] = {"cotempo"}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Saved.packages.add(cls.__module__.partition(".")[0])

    def save(self, path: str | Path) -> Path:
        """Write this to a file that `cotempo.load` reads."""
        path = Path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, encode(pack(self)))
        except OSError as error:
            raise RunError(f"{path} must be a file that can be written: {error.strerror}") from error
        return path


def read_object(path: Path, **settings: Any) -> Any:
    """Read what `Saved.save` wrote; `settings` replace those of every `Settings` inside that has them."""
    try:
        return unpack(decode(path.read_bytes()), settings)
    except (OSError, TreeError, ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
        raise RunError(f"{path} must be a file that save wrote, with this version of cotempo: {error}") from error


def pack(value: Any) -> Any:
    """Return a value as a tree of plain things that names the classes it is made of."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Settings):
        return {"class": _place(value), "settings": json.dumps(value.model_dump(mode="json"))}
    if isinstance(value, tuple):
        items = tuple(pack(item) for item in value)
        return {"class": _place(value), "items": items} if hasattr(value, "_fields") else items
    if isinstance(value, Mapping):
        return {"map": {key: pack(item) for key, item in value.items()}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
    elif isinstance(value, Saved):
        names = list(inspect.signature(type(value)).parameters)
    else:
        return value
    return {"class": _place(value), "fields": {name: pack(getattr(value, name)) for name in names}}


def unpack(tree: Any, settings: Mapping[str, Any] | None = None) -> Any:
    """Undo `pack`."""
    if isinstance(tree, tuple):
        return tuple(unpack(item, settings) for item in tree)
    if not isinstance(tree, Mapping):
        return tree
    if "map" in tree:
        return {key: unpack(item, settings) for key, item in tree["map"].items()}
    cls = _find(tree["class"])
    if "settings" in tree:
        replaced = {name: value for name, value in (settings or {}).items() if name in cls.model_fields}
        return cls(**{**json.loads(tree["settings"]), **replaced})
    if "items" in tree:
        return cls(*(unpack(item, settings) for item in tree["items"]))
    return cls(**{name: unpack(item, settings) for name, item in tree["fields"].items()})


def _place(value: object) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _find(place: str) -> Any:
    """Return the class a file names: one that holds data and nothing else, of cotempo or a package with a `Saved`."""
    module, _, name = place.partition(":")
    if module.partition(".")[0] not in Saved.packages:
        raise ValueError(f"{place} is not of cotempo; import the package that defines it first")
    cls = getattr(importlib.import_module(module), name)
    parameters = getattr(cls, "__dataclass_params__", None)
    if not (
        (parameters and parameters.frozen)
        or (isinstance(cls, type) and (issubclass(cls, Settings | Saved) or hasattr(cls, "_fields")))
    ):
        raise ValueError(f"{place} is not a class of results")
    return cls
