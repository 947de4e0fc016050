"""Keys that only their owners have seen: fingerprints, pinning, rotation, revocation, and the man in the middle."""

from __future__ import annotations

import json
import random
import stat
from pathlib import Path

import pytest

from cotempo.engines.flower.coordinator.server import Server
from cotempo.engines.flower.provision import Federation, provision
from cotempo.engines.flower.site.enrolment import confirm_with, enrol, pin, rotate
from cotempo.errors import EngineError, ParameterError
from cotempo.privacy.keys import Enrolment, PeerBook, SiteKeys
from cotempo.privacy.words import WORDS

NAMES = ("ash", "birch", "cedar", "elm")


def refuse(_: object) -> None:
    raise AssertionError("nobody should be asked")


@pytest.fixture
def server(tmp_path: Path) -> Server:
    provision(Federation(name="trees", sites=NAMES), tmp_path / "made")
    return Server(tmp_path / "made" / "server")


def kit(folder: Path, name: str) -> Path:
    place = folder / name
    place.mkdir()
    (place / "site.toml").write_text(f'name = "{name}"\n')
    return place


def test_words_are_256_that_nobody_mixes_up() -> None:
    assert len(WORDS) == len({word[:4] for word in WORDS}) == 256
    assert all((word.isalpha() and word.islower() and 4 <= len(word) <= 8) or word == "fox" for word in WORDS)


def test_keys_are_made_at_the_site_and_are_for_its_owner_only(tmp_path: Path) -> None:
    place = kit(tmp_path, "ash")
    path, entry = enrol(place)
    assert stat.S_IMODE((place / "keys").stat().st_mode) == 0o700
    secrets = {file.name: file.read_text() for file in (place / "keys").iterdir()}
    assert {*secrets} == {"signing.key", "node.key", "seed"}
    for file, secret in secrets.items():
        assert stat.S_IMODE((place / "keys" / file).stat().st_mode) == 0o600
        assert not any(line in path.read_text() for line in secret.splitlines() if len(line) > 20)
    assert Enrolment.from_file(path) == entry
    assert len(entry.fingerprint.split()) == 10
    with pytest.raises(EngineError, match="client rotate"):
        enrol(place)
    (place / "keys" / "seed").chmod(0o644)
    with pytest.raises(ParameterError, match="readable by its owner only"):
        SiteKeys.load("ash", place / "keys")


def test_kits_hold_no_keys_and_the_server_admits_what_was_compared(server: Server, tmp_path: Path) -> None:
    assert server.site_names == []
    _, entry = enrol(kit(tmp_path, "ash"))
    with pytest.raises(ParameterError, match="must be the one that was read to you"):
        server.admit(entry, lambda entry: confirm_words(entry, "acid " * 10))
    assert server.site_names == []
    server.admit(entry, lambda entry: confirm_words(entry, entry.fingerprint.upper()))
    assert server.site_names == ["ash"]
    with pytest.raises(EngineError, match="birch is not; admit it with"):
        server.signing_keys(["ash", "birch"])
    with pytest.raises(ParameterError, match="one of the consortium's"):
        server.admit(SiteKeys.create("oak", tmp_path / "oak").enrol(), refuse)


def confirm_words(entry: Enrolment, words: str) -> None:
    from cotempo.privacy.keys import require_fingerprint

    require_fingerprint(entry.fingerprint, words)


@pytest.mark.parametrize("field", ["signing", "node", "name"])
def test_an_enrolment_that_was_changed_is_refused(tmp_path: Path, field: str) -> None:
    path, entry = enrol(kit(tmp_path, "ash"))
    other = SiteKeys.create("birch", tmp_path / "other").enrol()
    path.write_text(json.dumps({**entry.model_dump(), field: getattr(other, field)}))
    with pytest.raises(ParameterError, match="as the site signed it"):
        Enrolment.from_file(path)


def test_a_cheating_coordinator_who_enrols_false_keys_is_noticed_100_times_of_100(tmp_path: Path) -> None:
    """It may make a false book for each site, with valid signatures, as long as each finds its own key in it."""
    kits = {name: kit(tmp_path, name) for name in NAMES}
    entries = {name: enrol(place)[1] for name, place in kits.items()}
    honest = PeerBook(coordinator="ab" * 32, sites=entries)
    noticed = 0
    for trial in range(100):
        draw = random.Random(trial)
        victim = draw.choice(NAMES)
        others = [name for name in NAMES if name != victim]
        false = dict(entries)
        for name in draw.sample(others, draw.randint(1, len(others))):
            false[name] = SiteKeys.create(name, tmp_path / "false" / f"{trial}-{name}").enrol()
        book = tmp_path / "book.toml"
        honest.model_copy(update={"sites": false}).save(book)
        try:
            pin(kits[victim], book, confirm_with(honest.fingerprint))  # the words that the other sites read out
        except ParameterError as error:
            noticed += "somebody may have exchanged a key" in str(error)
        assert not (kits[victim] / "peers.toml").exists()
    assert noticed == 100


def test_a_book_without_the_sites_own_key_is_refused(tmp_path: Path) -> None:
    place = kit(tmp_path, "ash")
    enrol(place)
    false = SiteKeys.create("ash", tmp_path / "false").enrol()
    PeerBook(coordinator="ab" * 32, sites={"ash": false}).save(tmp_path / "book.toml")
    with pytest.raises(ParameterError, match="this site's own key"):
        pin(place, tmp_path / "book.toml", refuse)


def test_rotation_needs_no_words_and_only_the_old_key_can_do_it(server: Server, tmp_path: Path) -> None:
    kits = {name: kit(tmp_path, name) for name in NAMES}
    for place in kits.values():
        server.admit(enrol(place)[1], lambda entry: None)
    book = server.folder / "book.toml"
    for place in kits.values():
        pin(place, book, confirm_with(server.book.fingerprint))
    before = SiteKeys.load("ash", kits["ash"] / "keys")
    _, entry = rotate(kits["ash"])
    after = SiteKeys.load("ash", kits["ash"] / "keys")
    assert after.identity.public != before.identity.public
    assert after.seed_of("run") == before.seed_of("run")
    server.admit(entry, refuse)
    for place in kits.values():
        assert pin(place, book, refuse).sites["ash"].signing == after.identity.public.hex()
    stranger = SiteKeys.create("birch", tmp_path / "stranger")
    forged = stranger.enrol(previous=stranger)
    with pytest.raises(AssertionError, match="nobody should be asked"):
        server.admit(forged, refuse)
    server.book.with_site(forged).save(tmp_path / "forged.toml")
    with pytest.raises(AssertionError, match="nobody should be asked"):
        pin(kits["ash"], tmp_path / "forged.toml", refuse)


def test_a_revoked_key_is_out_for_good(server: Server, tmp_path: Path) -> None:
    place = kit(tmp_path, "ash")
    _, entry = enrol(place)
    server.admit(entry, lambda entry: None)
    server.revoke("ash")
    assert server.site_names == []
    assert "ash" not in server.book.sites
    with pytest.raises(ParameterError, match="must not have been revoked"):
        server.admit(entry, lambda entry: None)
    with pytest.raises(ParameterError, match="must be an admitted one"):
        server.revoke("ash")
    server.admit(rotate(place)[1], lambda entry: None)  # a new key, whose words are compared again


def test_demo_kits_are_enrolled_already(tmp_path: Path) -> None:
    provision(Federation(name="trees", sites=NAMES), tmp_path / "made", with_keys=True)
    server = Server(tmp_path / "made" / "server")
    assert server.site_names == sorted(NAMES)
    assert {*server.book.sites} == {*NAMES}
