"""Helpers that the tests of deployments have as well, and a site that is asked."""

import sys
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "engines" / "flower")]

from asked_site import AskedSite, make_site

collect_ignore = ["asked_site.py"]


@pytest.fixture
def site(tmp_path: Path) -> AskedSite:
    return make_site(tmp_path)
