"""What provisioning makes, and what it must not."""

from __future__ import annotations

import hashlib
import ipaddress
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

import cotempo as ct
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
    plain = {"ca.crt", "site.toml", "start.sh", "README.md", "compose.yaml", "Containerfile", "cotempo-site.service"}
    assert {*kit(tmp_path / "icu", "north")} == plain
    assert not list((tmp_path / "icu" / "server" / "sites").iterdir())


def wheels(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / f"{name}-py3-none-any.whl").write_bytes(name.encode())
    return folder


def test_with_a_wheelhouse_a_kit_pins_every_wheel_by_its_hash(tmp_path: Path) -> None:
    house = wheels(tmp_path / "wheels", f"cotempo-{ct.__version__}", "flwr-1.41.0", "torch-2.13.0", "tomli_w-1.2.0")
    provision(Federation(name="icu", sites=("north",)), tmp_path / "icu", wheelhouse=house)
    made = kit(tmp_path / "icu", "north")
    lines = made["requirements.txt"].decode().splitlines()
    assert [line.split(" ")[0] for line in lines] == [
        f"cotempo[flower]=={ct.__version__}", "flwr==1.41.0", "tomli-w==1.2.0", "torch==2.13.0"
    ]  # fmt: skip
    assert lines[1].endswith(f"--hash=sha256:{hashlib.sha256(b'flwr-1.41.0').hexdigest()}")
    assert b"--no-index" in made["README.md"]
    assert b"pip install" not in made["compose.yaml"]
    assert made["Containerfile"].count(b"pip install") == made["Containerfile"].count(b"--no-index") == 1


@pytest.mark.parametrize(
    ("names", "must"),
    [
        ((), "cotempo is missing"),
        (("cotempo-0.0.1", "flwr-1.41.0", "torch-2.13.0"), "the cotempo of this machine"),
        ((f"cotempo-{ct.__version__}", "flwr-1.41.0", "flwr-1.42.0", "torch-2.13.0"), "several of flwr"),
        (("cotempo",), "named as wheels are"),
    ],
)
def test_a_wrong_wheelhouse_is_refused_in_plain_words(tmp_path: Path, names: tuple[str, ...], must: str) -> None:
    with pytest.raises(ParameterError, match=must):
        provision(Federation(name="icu", sites=("north",)), tmp_path / "icu", wheelhouse=wheels(tmp_path / "w", *names))
    assert not (tmp_path / "icu").exists()


def test_the_files_for_services_and_containers_are_well_formed(made: Path, tmp_path: Path) -> None:
    files = kit(made, "north")
    service = yaml.safe_load(files["compose.yaml"])["services"]["site"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    unit = files["cotempo-site.service"].decode().replace("/srv/cotempo/venv/bin/cotempo", sys.executable)
    (tmp_path / "cotempo-site.service").write_text(unit.replace("/srv/cotempo/north", str(tmp_path)))
    if shutil.which("systemd-analyze"):
        said = subprocess.run(
            ["systemd-analyze", "verify", tmp_path / "cotempo-site.service"], capture_output=True, text=True
        )
        assert "cotempo-site.service" not in said.stderr, said.stderr


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
