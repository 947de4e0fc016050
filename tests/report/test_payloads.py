"""Twenty scripts in names, labels and texts: none runs in a page, and where nothing is escaped they would."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cotempo as ct
from cotempo.data import Posts, Series

RUN = "document.title='RAN'"
PAYLOADS = (
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"</style><script>{RUN}</script>",
    f"</title><script>{RUN}</script>",
    f"</textarea><script>{RUN}</script>",
    f"--><script>{RUN}</script>",
    f"]]><script>{RUN}</script>",
    f'<img src=x onerror="{RUN}">',
    f'"><img src=x onerror="{RUN}">',
    f"'><img src=x onerror={RUN}>",
    f'<svg onload="{RUN}">',
    f"<svg><script>{RUN}</script></svg>",
    f'<body onload="{RUN}">',
    f'<details open ontoggle="{RUN}">x</details>',
    f'<input autofocus onfocus="{RUN}">',
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    f'<video><source onerror="{RUN}"></video>',
    f'" autofocus onfocus="{RUN}" x="',
    f"${{{RUN}}}",
    f"';{RUN};//",
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--virtual-time-budget=2000",
)  # fmt: skip


def title_of(page: Path, profile: Path) -> str:
    """Return a page's title after its scripts had their time."""
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return found.split("<title>", 1)[1].split("</title>", 1)[0]


def networks(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    features = tuple(f"{place} {payload}" for place, payload in enumerate(PAYLOADS[:6]))
    tables = {name: Series.from_arrays(rng.normal(size=(40, 6)), features=features) for name in PAYLOADS}
    return ct.OneRound(compare=False, restarts=0).fit(tables, progress=False).report(folder / "networks.html")


def posts(folder: Path) -> Path:
    made = ct.make_posts(clients=2, posts=80, events=8, seed=0)[0]
    tables: dict[str, Any] = {}
    for name, table in made.items():
        known = sorted({label for label in table.event if label})
        names = {label: PAYLOADS[place] for place, label in enumerate(known)}
        text = tuple(f"{one} {PAYLOADS[place % len(PAYLOADS)]}" for place, one in enumerate(table.text))
        tables[f"{name} {PAYLOADS[7]}"] = Posts(
            text=text, time=table.time, event=tuple(label and names[label] for label in table.event)
        )
    method = ct.EventDetector(dimension=8, buckets=64, compare=False)
    return method.fit(tables, progress=False).report(folder / "posts.html")


def test_no_name_turns_or_hides_what_stands_around_it(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(40, 2))
    names = ("\u202egnp.exe", "\x1b[2Jred\u2066")
    tables = {name: Series.from_arrays(values, features=names) for name in ("ash\u200f", "birch", "cedar")}
    page = ct.FedMean().fit(tables, progress=False).report(tmp_path / "page.html").read_text()
    assert "?gnp.exe" in page
    assert not {*page} & {*"\u202e\u2066\u200f\x1b"}


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
@pytest.mark.parametrize("make", [networks, posts])
def test_no_script_in_names_or_texts_runs(make: Any, tmp_path: Path) -> None:
    page = make(tmp_path)
    assert "RAN" in page.read_text()  # the names are there
    assert title_of(page, tmp_path / "profile") != "RAN"


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_unescaped_they_would_run(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<title>quiet</title><p>{PAYLOADS[0]}</p>")
    assert title_of(page, tmp_path / "profile") == "RAN"
