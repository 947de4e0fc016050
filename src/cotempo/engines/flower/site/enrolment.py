"""`enrol`, `rotate` and `pin`: how a site makes its keys, replaces them, and learns those of its peers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cotempo.errors import EngineError, ParameterError
from cotempo.privacy.keys import Enrolment, PeerBook, SiteKeys, require_fingerprint
from cotempo.settings import read_toml
from cotempo.storage.files import write_whole

EMPTY_DATA = 'data = ""\n'  # as the kit brings it


def enrol(kit: Path) -> tuple[Path, Enrolment]:
    """Make a site's keys in its kit; return the file to hand over and what is in it."""
    name, folder = site_name(kit), kit / "keys"
    if (folder / "signing.key").exists():
        raise EngineError(f"{folder} must hold no keys yet; to replace them: cotempo client rotate {kit}")
    kit.chmod(0o700)
    return _hand_over(kit, SiteKeys.create(name, folder).enrol())


def rotate(kit: Path) -> tuple[Path, Enrolment]:
    """Replace a site's keys; the old ones sign the new ones and are gone, the seed stays."""
    name, folder = site_name(kit), kit / "keys"
    previous = SiteKeys.load(name, folder)
    return _hand_over(kit, SiteKeys.create(name, folder, previous.seed).enrol(previous))


def pin(kit: Path, path: Path, confirm: Callable[[PeerBook], None]) -> PeerBook:
    """Pin the keys of a book; `confirm` is called, and may raise, unless the pinned keys vouch for all of them."""
    name, book, pinned = site_name(kit), PeerBook.from_file(path), kit / "peers.toml"
    own = SiteKeys.load(name, kit / "keys").identity.public.hex()
    if name not in book.sites or book.sites[name].signing != own:
        raise ParameterError(
            f"{path} must hold {name} with this site's own key, it does not: it is older than the key, or somebody "
            "exchanged it; do not go on, tell the other sites"
        )
    if not (pinned.is_file() and PeerBook.from_file(pinned).vouches_for(book)):
        confirm(book)
    book.save(pinned)
    return book


def fill_in_data(kit: Path, table: Path) -> None:
    """Write into a kit's `site.toml` where the site's table is, if nothing stands there yet."""
    site_name(kit)
    if not table.exists():
        raise ParameterError(f"--data must be the file or folder of your table, {table} is not there")
    path = kit / "site.toml"
    text = path.read_text(encoding="utf-8")
    if text.count(EMPTY_DATA) != 1:
        raise ParameterError(f"data must not be filled in yet to be set by --data; change it in {path}")
    filled = text.replace(EMPTY_DATA, f"data = {json.dumps(str(table.resolve()))}\n")
    write_whole(path, filled.encode())


def confirm_with(words: str) -> Callable[[PeerBook], None]:
    """Return a confirmation by the words that were read to this site."""
    return lambda book: require_fingerprint(book.fingerprint, words)


def site_name(kit: Path) -> str:
    """Return the name of a kit's site, whose `site.toml` need not be filled in yet."""
    if not (kit / "site.toml").is_file():
        raise EngineError(f"{kit} must be the folder of a startup kit, it holds no readable site.toml")
    values: dict[str, Any] = read_toml(kit / "site.toml")
    if not isinstance(values.get("name"), str):
        raise ParameterError(f"{kit / 'site.toml'} must hold the site's name")
    return str(values["name"])


def _hand_over(kit: Path, made: Enrolment) -> tuple[Path, Enrolment]:
    path = kit / f"{made.name}.enrolment.json"
    write_whole(path, json.dumps(made.model_dump(), indent=1).encode())
    return path, made
