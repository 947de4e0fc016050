"""What provisioning makes, and what it must not."""

from __future__ import annotations

import ipaddress
import stat
import zipfile
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from cotempo.engines.flower.provision import Federation, provision
from cotempo.engines.flower.site.settings import SiteSettings
from cotempo.errors import EngineError, ParameterError
from cotempo.privacy.policy import SitePolicy


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "icu"
    federation = Federation(
        name="icu", address="coordinator.example.org:9443", sites=("north", "south"), methods=("FDBNL", "FedPP")
    )
    provision(federation, folder, with_keys=True)
    return folder


def kit(made: Path, site: str) -> dict[str, bytes]:
    with zipfile.ZipFile(made / "kits" / f"{site}.zip") as archive:
        return {name.removeprefix(f"{site}/"): archive.read(name) for name in archive.namelist()}


def test_the_authority_signed_the_server_and_names_its_host(made: Path) -> None:
    authority = x509.load_pem_x509_certificate((made / "server" / "ca.crt").read_bytes())
    certificate = x509.load_pem_x509_certificate((made / "server" / "server.crt").read_bytes())
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "coordinator.example.org" in names.get_values_for_type(x509.DNSName)
    assert ipaddress.ip_address("127.0.0.1") in names.get_values_for_type(x509.IPAddress)


def test_a_kit_holds_the_key_whose_public_half_the_server_has(made: Path) -> None:
    for site in ("north", "south"):
        private = load_ssh_private_key(kit(made, site)["keys/node.key"], None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        public = load_ssh_public_key((made / "server" / "sites" / f"{site}.pub").read_bytes())
        assert isinstance(public, ec.EllipticCurvePublicKey)
        assert private.public_key().public_numbers() == public.public_numbers()


def test_nothing_secret_of_a_site_is_outside_its_kit(made: Path) -> None:
    secrets = [line for site in ("north", "south") for line in kit(made, site)["keys/node.key"].splitlines()[1:-1]]
    seeds = [kit(made, "north")[f"keys/{name}"] for name in ("seed", "signing.key")]
    for path in made.rglob("*"):
        if path.is_file() and path.suffix != ".zip":
            content = path.read_bytes()
            assert not any(secret in content for secret in [*secrets, *seeds]), path


def test_secrets_are_for_their_owner_only(made: Path) -> None:
    of_server = [f"server/{name}" for name in ("server.key", "coordinator.key", "operator")]
    for name in ("authority/ca.key", *of_server, "kits/north.zip"):
        assert stat.S_IMODE((made / name).stat().st_mode) == 0o600, name
    with zipfile.ZipFile(made / "kits" / "north.zip") as archive:
        modes = {entry.filename: stat.S_IMODE(entry.external_attr >> 16) for entry in archive.infolist()}
    assert modes["north/keys/signing.key"] == 0o600
    assert modes["north/start.sh"] == 0o755


def test_a_kit_says_who_where_and_what(made: Path, tmp_path: Path) -> None:
    for name, content in kit(made, "north").items():
        assert b"@" not in content.replace(b"@openssh", b"") or name == "keys/node.key", name
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ParameterError, match="data must name your table"):
        SiteSettings.from_kit(tmp_path)
    path = tmp_path / "site.toml"
    path.write_text(path.read_text().replace('data = ""', 'data = "table.csv"'))
    settings = SiteSettings.from_kit(tmp_path)
    assert (settings.name, settings.server) == ("north", "coordinator.example.org:9443")
    assert settings.methods == ("FDBNL", "FedPP")
    assert settings.data == str(tmp_path / "table.csv")
    assert not settings.random.shared
    assert settings.privacy == SitePolicy()  # what the file says is what holds without it
    assert not settings.parameters


def test_kits_hold_no_keys_unless_they_are_for_a_demo(tmp_path: Path) -> None:
    provision(Federation(name="icu", sites=("north",)), tmp_path / "icu")
    assert {*kit(tmp_path / "icu", "north")} == {"ca.crt", "site.toml", "start.sh", "README.md", "compose.yaml"}
    assert not list((tmp_path / "icu" / "server" / "sites").iterdir())


def test_keys_in_use_are_not_written_over(made: Path) -> None:
    with pytest.raises(EngineError, match="new or empty"):
        provision(Federation(name="icu", sites=("north",)), made)


@pytest.mark.parametrize(
    ("text", "must"),
    [
        ('name = "icu"', "sites"),
        ('name = "icu"\nsites = []', "sites"),
        ('name = "icu"\nsites = ["a", "A"]', "different names"),
        ('name = "icu"\nsites = ["../a"]', "letters, digits"),
        ('name = "icu"\nsites = ["a"]\naddress = "host"', "host:port"),
        ('name = "icu"\nsites = ["a"]\nadress = "host:1"', "did you mean 'address'"),
        ("name = ", "TOML"),
    ],
)
def test_a_wrong_federation_file_is_refused_in_plain_words(tmp_path: Path, text: str, must: str) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(text)
    with pytest.raises(ParameterError, match=must):
        Federation.from_file(path)
