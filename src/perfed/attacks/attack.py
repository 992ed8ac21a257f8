"""Which attack is simulated, how strong, and by whom."""

from collections.abc import Sequence
from dataclasses import dataclass

from .. import keys
from ..errors import InputError, suggest

ATTACKS = {
    "none": "nobody attacks",
    "sign": "updates turned round and made 5 times as long",
    "scale": "updates 100 times as long",
    "gaussian": "normal noise of deviation 1 instead of an update",
    "alie": "the honest clients' mean update less as many deviations as still look honest",
    "inner": "the honest clients' mean update turned round and made 5 times as long",
    "labels": "training on labels turned round: the first class is called the last",
    "backdoor": "training on samples of which half carry a mark and are called the first class",
}
STRENGTH = {"sign": 5.0, "scale": 100.0, "gaussian": 1.0, "inner": 5.0, "backdoor": 0.5}  # unless told
DATA = ("labels", "backdoor")  # attacks by what is trained on; the others change what is sent


@dataclass(frozen=True, kw_only=True)
class Attack:
    """An attack by some of the clients, for simulation only.

    Args:
        name: Which one, of `ATTACKS`.
        clients: Who attacks: a share of the clients, a number, or names.
        strength: How strong; by default the attack's own: a factor, a deviation, or the share of marked samples.

    Raises:
        InputError: If there is no such attack, or nobody or everybody would attack.

    Example:
        >>> from perfed.attacks import Attack
        >>> Attack(name="sign").who(["client 0", "client 1", "client 2", "client 3", "client 4"], seed=0)
        [1]
    """

    name: str = "none"  # sign, scale, gaussian, alie, inner, labels or backdoor
    clients: float | int | tuple[str, ...] = 0.2  # who attacks: a share of the clients, a number, or names
    strength: float | None = None  # None: the attack's own; a factor, a deviation, or the share of marked samples

    def __post_init__(self) -> None:
        if self.name not in ATTACKS:
            raise suggest("attack", self.name, ATTACKS)
        if self.name == "none" and (self.clients != 0.2 or self.strength is not None):
            raise InputError("attack.clients and attack.strength need an attack, such as attack=sign")
        if self.strength is not None and not 0 < self.strength < 1e30:
            raise InputError(f"attack.strength must be positive, got {self.strength:g}")
        if self.strength is not None and self.name == "labels":
            raise InputError("attack=labels turns every label round and has no strength")
        if self.name == "backdoor" and self.force > 1:
            raise InputError(f"attack.strength is the share of samples that carry the mark, at most 1, got {self.force:g}")
        if not isinstance(self.clients, tuple) and not self.clients > 0:
            raise InputError(f"attack.clients must be a share, a number or names, got {self.clients}; 0.2 is a fifth")

    def __bool__(self) -> bool:
        return self.name != "none"

    @property
    def force(self) -> float:
        """How strong the attack is."""
        return STRENGTH.get(self.name, 0.0) if self.strength is None else self.strength

    def who(self, names: Sequence[str], seed: int) -> list[int]:
        """Return the numbers of those who attack; a share or a number of them is drawn from the seed.

        Args:
            names: The clients' names.
            seed: What they are drawn from.

        Returns:
            Their numbers, in order; nobody's where there is no attack.

        Raises:
            InputError: If a name is unknown, or everybody would attack.

        Example:
            >>> from perfed.attacks import Attack
            >>> Attack(name="scale", clients=("Oslo",)).who(["Rome", "Oslo"], seed=0)
            [1]
        """
        if not self:
            return []
        if isinstance(self.clients, tuple):
            for name in self.clients:
                if name not in names:
                    raise suggest("client in attack.clients", name, names)
            found = sorted({list(names).index(name) for name in self.clients})
        else:
            whole = isinstance(self.clients, int)
            count = int(self.clients) if whole else max(1, round(self.clients * len(names)))
            found = sorted(keys.permutation(keys.key(seed, "attack"), len(names))[:count].tolist())
        if len(found) >= len(names):
            raise InputError(f"attack.clients makes attackers of all {len(names)} clients: nobody is left to be attacked")
        return found
