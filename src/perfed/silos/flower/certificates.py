"""A certificate authority of one's own, a server certificate, and a key pair for every silo."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError, extra
from .. import keep

if TYPE_CHECKING:
    from cryptography import x509

WARN = 30  # days before a certificate ends


def _pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization as s

    return bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))


def _named(name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(subject: "x509.Name", issuer: "x509.Name", key: Any, days: int) -> Any:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def authority(folder: Path, days: int = 3650) -> None:
    """Write ``ca.crt`` and ``ca.key``: who holds the key can make servers that the silos trust."""
    extra("cryptography", "flower")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    name = _named("perfed deployment")
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    made = (
        _begun(name, name, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA384())
    )
    keep.put(folder / "ca.key", _pem(key))
    (folder / "ca.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))


def server(ca: Path, folder: Path, hosts: Sequence[str], days: int = 365) -> None:
    """Write ``server.crt`` for ``hosts`` and ``server.key``, signed by the authority in ``ca``."""
    extra("cryptography", "flower")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    signer: Any = serialization.load_pem_private_key((ca / "ca.key").read_bytes(), None)
    issuer = x509.load_pem_x509_certificate((ca / "ca.crt").read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        _begun(_named(hosts[0]), issuer.subject, key.public_key(), days)
        .add_extension(x509.SubjectAlternativeName([_host(h) for h in dict.fromkeys(hosts)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()),  # type: ignore[arg-type]
            critical=False,
        )
        .sign(signer, hashes.SHA384())
    )
    keep.put(folder / "server.key", _pem(key))
    (folder / "server.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))


def _host(name: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def node(folder: Path) -> bytes:
    """Write ``node.key``; return the public key that the server must know."""
    extra("cryptography", "flower")
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())  # signs every request: the fastest of the curves that the engine takes
    keep.put(folder / "node.key", key.private_bytes(s.Encoding.PEM, s.PrivateFormat.OpenSSH, s.NoEncryption()))
    public = key.public_key().public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH) + b"\n"
    (folder / "node.pub").write_bytes(public)
    return public


def roster(folder: Path, silos: Sequence[int]) -> dict[bytes, int]:
    """Return the silos' public keys as Flower spells them, with the client behind each."""
    found = {}
    for i in silos:
        found[pem_of(folder / "keys" / f"silo-{i}.pub")] = i
    if len(found) < len(silos):
        raise InputError(f"two silos in '{folder / 'keys'}' have the same key")
    return found


class Roster:
    """The roster of a server's folder as it stands; silos that were added or removed are noticed."""

    def __init__(self, server: Path) -> None:
        self.server = server
        self._read: int | None = None
        self._known: dict[bytes, int] = {}

    def __call__(self) -> dict[bytes, int]:
        from ..terms import Terms  # torch comes with it, which the link does without

        path = self.server / "server.yaml"
        if (now := path.stat().st_mtime_ns) != self._read:
            self._known, self._read = roster(self.server, Terms.load(path).numbers), now
        return self._known


def pem_of(path: Path) -> bytes:
    """Return a silo's public key as Flower spells it."""
    extra("cryptography", "flower")
    from cryptography.hazmat.primitives import serialization as s

    try:
        key = s.load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError) as wrong:
        raise InputError(f"cannot read the public key '{path}': {wrong}") from wrong
    return key.public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)


def days_left(path: Path) -> float:
    """Return how many days a certificate is still valid; negative after its end or before its beginning."""
    from cryptography import x509

    found = x509.load_pem_x509_certificate(path.read_bytes())
    now = datetime.now(UTC)
    if now < found.not_valid_before_utc:
        return -1.0
    return (found.not_valid_after_utc - now) / timedelta(days=1)


def signed_by(path: Path, ca: Path) -> bool:
    """Whether the authority's key made this certificate."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        issuer = x509.load_pem_x509_certificate(ca.read_bytes())
        x509.load_pem_x509_certificate(path.read_bytes()).verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def hosts_of(path: Path) -> list[str]:
    """Return the names and addresses a server certificate is for."""
    from cryptography import x509

    found = x509.load_pem_x509_certificate(path.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def belongs(key: Path, certificate: Path) -> bool:
    """Whether a private key is the one of a certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization as s

    form = (s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
    own = s.load_pem_private_key(key.read_bytes(), None).public_key().public_bytes(*form)
    return own == x509.load_pem_x509_certificate(certificate.read_bytes()).public_key().public_bytes(*form)


def public_of(key: Path) -> bytes:
    """Return the public half of a silo's private key, in one line."""
    from cryptography.hazmat.primitives import serialization as s

    private: Any = s.load_ssh_private_key(key.read_bytes(), None)
    return bytes(private.public_key().public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH))
