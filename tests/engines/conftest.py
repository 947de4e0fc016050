"""Make `toys` of the federation's tests importable, also in worker processes."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "federation"))
