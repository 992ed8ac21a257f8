"""Where a silo's private parts begin: as the other silos' do, and unknown to the server."""

import hmac
import re
from pathlib import Path

import torch
from torch import Tensor

from .. import trees
from ..errors import InputError
from ..runs.assemble import Assembled
from ..transport import Private

FILE = "start.key"  # in every silo's folder the same, in the server's never


def read(folder: Path) -> str:
    """Return the secret that the silos share, or nothing where this one was given none."""
    path = folder / FILE
    if not path.exists():
        return ""
    try:
        found = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as wrong:
        raise InputError(f"cannot read the silos' common secret '{path}': {wrong}") from wrong
    if not re.fullmatch("[0-9a-f]{64}", found):
        raise InputError(f"'{path}' should hold 64 hexadecimal digits; copy the file from another silo")
    return found


def seed_of(secret: str, experiment: str) -> int:
    """Return the seed from which the silos draw the private parts of one experiment."""
    return int.from_bytes(_of(secret, f"start {experiment}")[:8], "little") >> 1


def sign_of(secret: str, experiment: str) -> str:
    """Return what tells whether two silos have one secret; the secret cannot be had from it."""
    return _of(secret, f"sign {experiment}").hex()[:32]


def _of(secret: str, what: str) -> bytes:
    return hmac.digest(bytes.fromhex(secret), what.encode(), "sha256")


def first(public: Assembled, drawn: Assembled) -> Private:
    """Return a silo's first private state: ``drawn`` from a secret, save where the method starts with a copy of what is sent.

    Such a copy is known to whoever sent it, and methods rely on its being one.
    """
    sent: list[list[Tensor]] = [trees.leaves(made.method.send(made.server, 0)) for made in (drawn, public)]

    def begun(leaf: Tensor) -> Tensor:
        for other, known in zip(*sent, strict=True):
            if other.shape == leaf.shape and other.dtype == leaf.dtype and torch.equal(other, leaf):
                found: Tensor = known
                return found
        return leaf

    return Private(trees.clone(trees.map(begun, drawn.first.mine)), {})
