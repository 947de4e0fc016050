"""Provisioning: from one page about a consortium to a server's folder and one startup kit per site.

A certificate authority of the consortium's own signs the server's certificate; each site has a key pair by which the
server knows it. A site's private key is in its kit and nowhere else.
"""

from __future__ import annotations

import datetime
import io
import ipaddress
import re
import secrets
import tomllib
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any

import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from cotempo.errors import EngineError, ParameterError
from cotempo.settings import explain

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
YEARS = 3


class Federation(BaseModel):
    """A consortium: who coordinates, where, and who takes part.

    Parameters
    ----------
    name
        What the consortium calls itself.
    address
        Where sites reach the server, ``host:port``.
    listen
        The network interface the server listens on; this machine only by default. ``0.0.0.0`` is all of them.
    sites
        One name per site; it is the client's name in every run.
    methods
        What a site's kit proposes to approve; the site has the last word.
    share_seed
        Let all sites draw random numbers from the run's seed, so that a run can be repeated bit for bit; by default
        each has a secret seed of its own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=NAME)
    address: str = "127.0.0.1:9443"
    listen: str = "127.0.0.1"
    sites: tuple[str, ...] = Field(min_length=1)
    methods: tuple[str, ...] = ()
    share_seed: bool = False

    @field_validator("sites")
    @classmethod
    def _distinct(cls, sites: tuple[str, ...]) -> tuple[str, ...]:
        bad = [site for site in sites if not re.match(NAME, site)]
        if bad:
            raise ValueError(f"a site's name must be letters, digits, '.', '_' and '-' only, {bad[0]!r} is not")
        if len({site.lower() for site in sites}) < len(sites):
            raise ValueError("sites must have different names")
        return sites

    @field_validator("address")
    @classmethod
    def _has_port(cls, address: str) -> str:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError("it must be host:port, like coordinator.example.org:9443")
        return address

    @property
    def host(self) -> str:
        """The host's name or number, without the port."""
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port sites connect to."""
        return int(self.address.rpartition(":")[2])


def read_federation(path: Path) -> Federation:
    """Read a federation file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ParameterError(f"{path} must be a readable TOML file: {error}") from error
    return make_federation(content, str(path))


def make_federation(content: dict[str, Any], where: str) -> Federation:
    """Check a federation's settings."""
    try:
        return Federation(**content)
    except ValidationError as error:
        raise ParameterError(explain(error, Federation, where)) from None


def provision(federation: Federation, folder: Path) -> list[Path]:
    """Write the authority, the server's folder and the kits; returns what was made, the kits last."""
    if folder.exists() and any(folder.iterdir()):
        raise EngineError(f"{folder} must be a new or empty folder: keys in use must not be written over")
    authority, server, kits = folder / "authority", folder / "server", folder / "kits"
    for path in (authority, server / "sites", kits):
        path.mkdir(parents=True)
    authority_key, certificate = _authority(federation.name)
    _write_secret(authority / "ca.key", _private_pem(authority_key, serialization.PrivateFormat.PKCS8))
    key = ec.generate_private_key(ec.SECP384R1())
    _write_secret(server / "server.key", _private_pem(key, serialization.PrivateFormat.PKCS8))
    (server / "server.crt").write_bytes(_pem(_server_certificate(federation, key, authority_key, certificate)))
    for path in (authority, server):
        (path / "ca.crt").write_bytes(_pem(certificate))
    _write_secret(server / "operator", secrets.token_hex(32).encode())
    (server / "federation.toml").write_text(tomli_w.dumps(federation.model_dump(mode="json")))
    made = [authority, server]
    for site in federation.sites:
        site_key = ec.generate_private_key(ec.SECP384R1())
        (server / "sites" / f"{site}.pub").write_bytes(
            site_key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        )
        made.append(kits / f"{site}.zip")
        _write_secret(made[-1], _kit(federation, site, site_key, _pem(certificate)))
    return made


def _kit(federation: Federation, site: str, key: ec.EllipticCurvePrivateKey, authority: bytes) -> bytes:
    """A site's startup kit, a zip that unpacks into a folder of the site's name."""
    words = {
        "SITE": site,
        "FEDERATION": federation.name,
        "ADDRESS": federation.address,
        "METHODS": ", ".join(f'"{method}"' for method in federation.methods),
        "SEED": "" if federation.share_seed else f"seed = {secrets.randbits(63)}",
    }
    files = {"ca.crt": authority, "site.key": _private_pem(key, serialization.PrivateFormat.OpenSSH)}
    for name in ("site.toml", "start.sh", "README.md", "compose.yaml"):
        text = resources.files(__package__).joinpath("kit", name).read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(f"@{word}@", value)
        files[name] = text.encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(f"{site}/{name}", (2020, 1, 1, 0, 0, 0))
            modes = {"start.sh": 0o755, "site.key": 0o600, "site.toml": 0o600}
            entry.external_attr = modes.get(name, 0o644) << 16
            archive.writestr(entry, data)
    return buffer.getvalue()


def _authority(name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} certificate authority")])
    builder = _builder(subject, subject, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only",
         "decipher_only", "digital_signature"), False,
    )  # fmt: skip
    builder = builder.add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return key, builder.sign(key, hashes.SHA384())


def _server_certificate(
    federation: Federation,
    key: ec.EllipticCurvePrivateKey,
    authority_key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, federation.host[:64])])
    names = [_alternative(host) for host in dict.fromkeys((federation.host, "localhost", "127.0.0.1"))]
    builder = _builder(subject, authority.subject, key.public_key())
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return builder.add_extension(identifier, critical=False).sign(authority_key, hashes.SHA384())


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private_pem(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write_secret(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
