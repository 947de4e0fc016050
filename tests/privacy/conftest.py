"""Helpers that the tests of deployments have as well."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "engines" / "flower"))
