"""Pages for one person on this machine: the extra ``cotempo[watch]``, the only package that imports starlette."""

from importlib.util import find_spec

from cotempo.errors import EngineError

if find_spec("starlette") is None or find_spec("uvicorn") is None:
    raise EngineError("starlette and uvicorn must be installed to show pages; pip install 'cotempo[watch]'")
