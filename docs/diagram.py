"""Draw which package of cotempo imports which, read from the source, into docs/architecture.svg.

python docs/diagram.py            write the picture
python docs/diagram.py --check    exit with 1 where the picture is out of date
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent / "src" / "cotempo"
PICTURE = Path(__file__).parent / "architecture.svg"
WIDTH, HEIGHT, GAP, ROW = 118, 34, 22, 84
SMALL = {
    "alerts",
    "errors",
    "typing",
    "threads",
    "devices",
    "settings",
}  # imported all over: without arrows


def package_imports() -> dict[str, set[str]]:
    """Return, per package, the packages its modules import when they are loaded."""
    found: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts in (("__init__",), ("__main__",)):
            continue
        own = found.setdefault(parts[0], set())
        for node in _loaded(ast.parse(path.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            own |= {name.split(".")[1] for name in names if name and name.startswith("cotempo.")}
        own.discard(parts[0])
    return found


def _loaded(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports that run when a module is loaded: not those inside functions or for type checkers only."""
    found: list[ast.Import | ast.ImportFrom] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
        elif not (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        ):
            found += _loaded(node)
    return found


def draw(imports: dict[str, set[str]]) -> str:
    """Return the picture: a package stands above everything it imports."""

    @cache
    def depth(name: str) -> int:
        return 1 + max((depth(other) for other in imports[name] if other in imports), default=-1)

    levels: dict[int, list[str]] = {}
    for name in sorted(imports):
        if name not in SMALL:
            levels.setdefault(depth(name), []).append(name)
    order = sorted(levels, reverse=True)
    widest = max(len(names) for names in levels.values())
    width, height = widest * (WIDTH + GAP) + GAP, len(order) * ROW + 50
    places = {}
    for row, level in enumerate(order):
        left = (width - len(levels[level]) * (WIDTH + GAP) + GAP) / 2
        for column, name in enumerate(levels[level]):
            places[name] = (left + column * (WIDTH + GAP), 20 + row * ROW)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="13">',
        "<style>.box{fill:#eef3fa;stroke:#2c6fbb}.arrow{stroke:#8795a5;fill:none}text{fill:#1b2733}"
        "@media(prefers-color-scheme:dark){.box{fill:#1d2b3a}text{fill:#e6edf3}}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#8795a5"/></marker></defs>',
    ]
    for name in sorted(places):
        for other in sorted(direct(name, imports) & set(places)):
            (x, y), (u, v) = places[name], places[other]
            start, end = f"{x + WIDTH / 2:g} {y + HEIGHT:g}", f"{u + WIDTH / 2:g} {v:g}"
            bend = f"{x + WIDTH / 2:g} {y + HEIGHT + 26:g} {u + WIDTH / 2:g} {v - 26:g}"
            lines.append(f'<path class="arrow" marker-end="url(#tip)" d="M{start}C{bend} {end}"/>')
    for name, (x, y) in sorted(places.items()):
        lines.append(f'<rect class="box" x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>')
        lines.append(f'<text x="{x + WIDTH / 2:g}" y="{y + 22:g}" text-anchor="middle">{name}</text>')
    under = ", ".join(sorted(SMALL & set(imports)))
    lines.append(f'<text x="{width / 2:g}" y="{height - 12}" text-anchor="middle">for all of them: {under}</text>')
    return "\n".join([*lines, "</svg>", ""])


def direct(name: str, imports: dict[str, set[str]]) -> set[str]:
    """Return the imports of a package that no other of its imports has already: the arrows worth drawing."""
    others = imports[name] & set(imports)
    return {other for other in others if not any(other in reach(third, imports) for third in others - {other})}


def reach(name: str, imports: dict[str, set[str]]) -> set[str]:
    """Return everything a package imports, directly or not."""
    found: set[str] = set()
    pending = [name]
    while pending:
        for other in imports.get(pending.pop(), set()) - found:
            found.add(other)
            pending.append(other)
    return found


def main() -> None:
    """Write the picture, or check it."""
    picture = draw(package_imports())
    if "--check" in sys.argv:
        sys.exit(not PICTURE.exists() or PICTURE.read_text() != picture)
    PICTURE.write_text(picture)


if __name__ == "__main__":
    main()
