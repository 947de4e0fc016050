"""`provision`: from a `Federation`, one page about a consortium, to the server's folder and one startup kit per site.

The consortium's own certificate authority signs the server's certificate. Kits hold no keys: every site makes its own
(`cotempo client enrol`), and the server admits their public halves. `with_keys` makes all keys here, for tests and
demos only: whoever provisions has then seen every site's keys.
"""

import datetime
import io
import ipaddress
import re
import secrets
import tempfile
import zipfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Self

import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pydantic import Field, field_validator

from cotempo.engines.flower.wheelhouse import lock_wheels
from cotempo.errors import EngineError
from cotempo.privacy.contract import CODE_VERSION
from cotempo.privacy.keys import NAME, PeerBook, SiteKeys, write_coordinator_key
from cotempo.settings import Settings, read_toml

YEARS = 3
FROM_WHEELS = """Put the folder `wheelhouse` you were given beside this file; no Internet is needed:
   `pip install --no-index --find-links wheelhouse --require-hashes -r requirements.txt`"""

Key = ec.EllipticCurvePrivateKey
Extensions = Mapping[x509.ExtensionType, bool]


class Federation(Settings):
    """A consortium: who coordinates, where, and who takes part."""

    name: str = Field(pattern=NAME, description="The consortium's name.")
    address: str = Field(default="127.0.0.1:9443", description="Where sites reach the server, ``host:port``.")
    listen: str = Field(default="127.0.0.1", description="The interface the server listens on; ``0.0.0.0`` is all.")
    sites: tuple[str, ...] = Field(min_length=1, description="One name per site, its client's name in every run.")
    methods: tuple[str, ...] = Field(default=(), description="What kits propose to allow; sites have the last word.")
    share_seed: bool = Field(
        default=False, description="Let sites draw from the run's seed, to repeat a run bit for bit, not from secrets."
    )

    @field_validator("sites")
    @classmethod
    def _distinct(cls, sites: tuple[str, ...]) -> tuple[str, ...]:
        bad = [site for site in sites if not re.match(NAME, site)]
        if bad:
            raise ValueError(f"a site's name must be letters, digits, '.', '_' and '-' only, got {bad[0]!r}")
        if len({site.lower() for site in sites}) < len(sites):
            raise ValueError("sites must have different names")
        return sites

    @field_validator("address")
    @classmethod
    def _has_port(cls, address: str) -> str:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"address must be host:port, like coordinator.example.org:9443, got {address!r}")
        return address

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read a federation file."""
        return cls.read(read_toml(path), str(path))

    @property
    def host(self) -> str:
        """The server's host, without the port."""
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port sites connect to."""
        return int(self.address.rpartition(":")[2])


def provision(
    federation: Federation, folder: Path, *, with_keys: bool = False, wheelhouse: Path | None = None
) -> list[Path]:
    """Write the authority, the server's folder and the kits; return their paths, the kits last.

    With `with_keys`, for tests and demos, the kits hold keys made here, and the server admits them. With a
    `wheelhouse`, the folder of all wheels, kits pin what is installed, and need no Internet.
    """
    locked = {} if wheelhouse is None else {"requirements.txt": lock_wheels(wheelhouse).encode()}
    if folder.exists() and any(folder.iterdir()):
        raise EngineError(f"{folder} must be a new or empty folder: keys in use must not be written over")
    authority, server, kits = folder / "authority", folder / "server", folder / "kits"
    for path in (authority, server / "sites", kits):
        path.mkdir(parents=True)
    authority_key, key = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    _write_secret(authority / "ca.key", _private_pem(authority_key, serialization.PrivateFormat.PKCS8))
    _write_secret(server / "server.key", _private_pem(key, serialization.PrivateFormat.PKCS8))
    issuer = f"{federation.name} certificate authority"
    certificate = _certificate(issuer, authority_key, issuer, authority_key, _authority_extensions(authority_key))
    names = [_alternative(host) for host in dict.fromkeys((federation.host, "localhost", "127.0.0.1"))]
    extensions = {
        x509.SubjectAlternativeName(names): False,
        x509.BasicConstraints(ca=False, path_length=None): True,
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]): False,
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()): False,
    }
    (server / "server.crt").write_bytes(_certificate(federation.host[:64], key, issuer, authority_key, extensions))
    for path in (authority, server):
        (path / "ca.crt").write_bytes(certificate)
    _write_secret(server / "operator", secrets.token_hex(32).encode())
    (server / "federation.toml").write_text(tomli_w.dumps(federation.model_dump(mode="json")))
    book = PeerBook(coordinator=write_coordinator_key(server / "coordinator.key"))
    keys: dict[str, dict[str, bytes]] = {site: {} for site in federation.sites}
    if with_keys:
        for site in federation.sites:
            with tempfile.TemporaryDirectory() as made:
                book = book.with_site(SiteKeys.create(site, Path(made)).enrol())
                keys[site] = {f"keys/{path.name}": path.read_bytes() for path in sorted(Path(made).iterdir())}
        for site, entry in book.sites.items():
            (server / "sites" / f"{site}.pub").write_text(entry.node)
    book.save(server / "book.toml")
    for name, content in locked.items():
        (server / name).write_bytes(content)  # for the kits of sites that are added later
    for site in federation.sites:
        pinned = {"peers.toml": (server / "book.toml").read_bytes()} if with_keys else {}
        _write_secret(
            kits / f"{site}.zip", make_kit(federation, site, {**keys[site], **pinned, **locked, "ca.crt": certificate})
        )
    return [authority, server, *(kits / f"{site}.zip" for site in federation.sites)]


def make_kit(federation: Federation, site: str, given: Mapping[str, bytes]) -> bytes:
    """Return a site's startup kit, a zip that unpacks into a folder of the site's name."""
    words = {
        "SITE": site,
        "FEDERATION": federation.name,
        "ADDRESS": federation.address,
        "METHODS": ", ".join(f'"{method}"' for method in federation.methods),
        "SHARED": "true" if federation.share_seed else "false",
        "INSTALL": FROM_WHEELS if "requirements.txt" in given else f"`pip install 'cotempo[flower]=={CODE_VERSION}'`",
    }
    files = dict(given)
    for name in ("site.toml", "start.sh", "README.md", "compose.yaml", "Containerfile", "cotempo-site.service"):
        text = resources.files(__package__).joinpath("kit", name).read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(f"@{word}@", value)
        files[name] = text.encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(f"{site}/{name}", (2020, 1, 1, 0, 0, 0))
            mode = 0o600 if name.startswith("keys/") else {"start.sh": 0o755, "site.toml": 0o600}.get(name, 0o644)
            entry.external_attr = mode << 16
            archive.writestr(entry, data)
    return buffer.getvalue()


def _authority_extensions(key: Key) -> Extensions:
    others = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only",
         "decipher_only", "digital_signature"), False,
    )  # fmt: skip
    return {
        x509.BasicConstraints(ca=True, path_length=0): True,
        x509.KeyUsage(key_cert_sign=True, crl_sign=True, **others): True,
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()): False,
    }


def _certificate(name: str, key: Key, issuer: str, issuer_key: Key, extensions: Extensions) -> bytes:
    """Return a signed certificate as PEM; extensions say whether they are critical."""
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
    )
    for extension, is_critical in extensions.items():
        builder = builder.add_extension(extension, critical=is_critical)
    return builder.sign(issuer_key, hashes.SHA384()).public_bytes(serialization.Encoding.PEM)


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private_pem(key: Key, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write_secret(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
