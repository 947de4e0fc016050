"""`write_report`: one HTML page about a result. It loads nothing, and runs nothing but its own script."""

import base64
import hashlib
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from cotempo.drawing.style import PALETTE
from cotempo.federation.fitted import Fitted
from cotempo.report.content import describe
from cotempo.report.tables import number
from cotempo.runs.folder import environment
from cotempo.storage.files import write_whole

#: Control characters but for tabs and line ends, and marks of the direction of text.
HIDDEN = dict.fromkeys(
    [
        *({*range(32), *range(127, 160)} - {9, 10, 13}),
        0x61C,
        0x200E,
        0x200F,
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    ],
    "?",
)


def write_report(fitted: Fitted, path: Path, truth: Any = None, run: Path | None = None) -> Path:
    """Write a page about a result, with scores against the truth if it is known."""
    return write_pages([describe(fitted, truth, run)], path)


def write_pages(sections: list[dict[str, Any]], path: Path) -> Path:
    """Write one page with a section per result."""
    return render("page.html.jinja", path, sections=sections)


def render(template: str, path: Path, **content: Any) -> Path:
    """Write a page from a template."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, make_page(template, **content).encode())
    return path


def make_page(template: str, **content: Any) -> str:
    """Return a page from a template, with the style sheet and the script it allows, and nothing else."""
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("cotempo", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=readable,
    )
    templates.filters["number"] = number
    css, script = style_sheet(), files("cotempo.report").joinpath("script.js").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return templates.get_template(template).render(
        css=css, script=script, policy=policy, environment=environment(), **content
    )


def readable(value: Any) -> Any:
    """Return a value of a page; in a text, signs that turn or hide what stands around them become question marks."""
    return value.translate(HIDDEN) if isinstance(value, str) else value


def style_sheet() -> str:
    """Return the style sheet of all pages: the palette of the figures, then the rules."""
    light, dark = ("".join(f"--{name}:{pair[place]};" for name, pair in PALETTE.items()) for place in (0, 1))
    rules = files("cotempo.report").joinpath("style.css").read_text(encoding="utf-8")
    return f":root{{color-scheme:light dark;{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{rules}"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
