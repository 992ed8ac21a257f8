"""The keys of a deployment as audit logs use them: a silo's node key, the server's own."""

import hashlib
from pathlib import Path
from typing import Any

from ...errors import InputError, extra
from ..audit import Key


def own(folder: Path) -> Key | None:
    """Return the key that a part of a deployment signs its log with; nothing where it has none."""
    path = next((folder / name for name in ("node.key", "server.key") if (folder / name).is_file()), None)
    if path is None:
        return None
    extra("cryptography", "flower")
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec

    load: Any = s.load_ssh_private_key if path.name == "node.key" else s.load_pem_private_key
    try:
        private = load(path.read_bytes(), None)
    except (OSError, ValueError) as wrong:
        raise InputError(f"cannot read the key '{path}': {wrong}") from wrong
    return _of(private.public_key())._replace(sign=lambda text: bytes(private.sign(text, ec.ECDSA(hashes.SHA256()))))


def public(path: Path) -> Key:
    """Return the public half of a key, in a silo's ``.pub`` or in the server's certificate."""
    extra("cryptography", "flower")
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization as s

    try:
        text = path.read_bytes()
        return _of(x509.load_pem_x509_certificate(text).public_key() if path.suffix == ".crt" else s.load_ssh_public_key(text))
    except (OSError, ValueError) as wrong:
        raise InputError(f"cannot read the public key '{path}': {wrong}") from wrong


def _of(key: Any) -> Key:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec

    def holds(signature: bytes, text: bytes) -> bool:
        try:
            key.verify(signature, text, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True

    whole = key.public_bytes(s.Encoding.DER, s.PublicFormat.SubjectPublicKeyInfo)
    return Key(hashlib.sha256(whole).hexdigest(), holds)
