"""`check`: do pages quote result files rightly, were these measured on clean commits, and does some page cite each?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from book import ties
from book.files import FOLDER, ROOT, all_names, result_file
from book.papers import PAGE
from book.registry import read_book

CITED = re.compile(r"benchmarks/results/([\w./-]+)\.(?:csv|json|png)")


@dataclass
class Findings:
    """What `cotempo bench check` found; `wrong` must be empty, the rest is counted."""

    wrong: list[str] = field(default_factory=list)
    tied: int = 0
    by_hand: dict[str, int] = field(default_factory=dict)
    dirty: list[str] = field(default_factory=list)
    dirty_tables: list[str] = field(default_factory=list)
    uncited: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """Return the findings in words."""
        typed = ", ".join(f"{page} {count}" for page, count in sorted(self.by_hand.items(), key=lambda item: -item[1]))
        return [
            *self.wrong,
            f"{len(self.wrong)} wrong: numbers that differ from their file, files and commands that are not there",
            f"{self.tied} numbers agree with the file that their marker names",
            f"{sum(self.by_hand.values())} numbers typed by hand ({typed})",
            f"{len(self.dirty)} files measured with uncommitted changes: {', '.join(self.dirty) or 'none'}",
            f"{len(self.dirty_tables)} tables added up with uncommitted changes, from parts of clean commits",
            f"{len(self.uncited)} files that no page cites: {', '.join(self.uncited) or 'none'}",
        ]


def check() -> Findings:
    """Compare README and docs with `benchmarks/results`, and the book with both."""
    found, cited = Findings(), set[str]()
    for page in pages():
        name = str(page.relative_to(ROOT))
        text = page.read_text()
        linked = {one for one in CITED.findall(text) if "*" not in one}
        found.wrong += [
            f"{name}: cites benchmarks/results/{one}, which is not there" for one in linked if not _known(one)
        ]
        cited |= linked | {one for one in all_names() if _mentions(text, one)}
        for block in ties.blocks(page):
            _check_block(found, name, block)
            cited |= {*block.files}
    book, every = read_book(), "\n".join(page.read_text() for page in [*pages(), PAGE])
    for one in book.values():  # a page that names the script, or the benchmark, cites what it writes
        names = {one.name, *(Path(command.split()[0]).name for command in one.command)}
        cited |= {*one.results} if any(re.search(rf"\b{re.escape(name)}\b", every) for name in names) else set()
    written = {one for benchmark in book.values() for one in benchmark.results}
    found.wrong += [f"book.toml: {one} is a result of no benchmark" for one in all_names() if one not in written]
    found.wrong += [
        f"book.toml: {one.name}: {one.script} is not there" for one in book.values() if not one.script.is_file()
    ]
    for name in all_names():
        state = result_file(name).state
        found.dirty += [name] if state == "dirty" else []
        found.dirty_tables += [name] if state == "dirty table" else []
    found.uncited = [name for name in all_names() if name not in cited]
    return found


def pages() -> list[Path]:
    """Return README and every page of the docs but `papers.md`, which is made of the files."""
    own = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in path.parts and path != PAGE]
    return [ROOT / "README.md", *own]


def _check_block(found: Findings, page: str, block: ties.Block) -> None:
    if block.marker is None:
        loose = [] if block.free else [quote for quote in block.quotes if _is_measurement(quote, block)]
        if loose:
            found.by_hand[page] = found.by_hand.get(page, 0) + len(loose)
        return
    if missing := ties.missing_files(block):
        found.wrong += [f"{page}:{block.line}: {name} is not in benchmarks/results" for name in missing]
        return
    untied, quotes = ties.untied(block), block.quotes
    texts = [quote.text for quote in quotes]
    for quote in untied:
        where = f" ({quote.row}; {quote.column})" if quote.row else ""
        found.wrong.append(f"{page}:{quote.line}: {quote.text}{where} is not in {', '.join(block.files)}")
    stale = [text for text in (*block.settings, *block.by_hand) if text not in texts]
    found.wrong += [f"{page}:{block.line}: the marker lists {text}, which the block does not hold" for text in stale]
    typed = sum(text in block.by_hand for text in texts)
    if typed:
        found.by_hand[page] = found.by_hand.get(page, 0) + typed
    found.tied += sum(text not in (*block.settings, *block.by_hand) for text in texts) - len(untied)


def _is_measurement(quote: ties.Quote, block: ties.Block) -> bool:
    """Return whether a number looks like a measurement: a fraction or a percentage, in tables any number."""
    return "." in quote.text or quote.percent or bool(quote.column)


def _known(name: str) -> bool:
    return (
        any((FOLDER / name).with_suffix(suffix).is_file() for suffix in (".csv", ".png", ".json"))
        or (FOLDER / name).is_dir()
    )


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"`(?:[\w/]*/)?{re.escape(name.rpartition('/')[2])}(?:\.csv)?`", text) is not None
