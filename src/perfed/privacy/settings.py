"""What a user asks of differential privacy: whom it protects, how much is cut off, how much noise, and when to stop."""

import math
from dataclasses import dataclass
from typing import Literal

from ..errors import InputError


@dataclass(frozen=True)
class Privacy:
    """Differential privacy on what clients upload, and only there.

    Args:
        name: Whom it protects: ``none``, ``client`` (all of a client's data: its answer is clipped and noised) or ``sample``
            (each of its samples: every step that leads to the answer is).
        clip: The longest move that counts, of an answer or of one sample's gradient.
        noise: The deviation of the Gaussian noise, as a multiple of ``clip``.
        delta: The chance that the promise does not hold; well below one over the number of those protected.
        stop: The ε at which training ends: the round that would go beyond it is not begun.

    Raises:
        InputError: If a value cannot be right.

    Example:
        >>> from perfed import Privacy
        >>> Privacy("client", noise=2).on
        True
        >>> Privacy("client", noise=0)
        Traceback (most recent call last):
        perfed.errors.InputError: privacy.noise must be positive, got 0; without noise nothing is promised
    """

    name: Literal["none", "client", "sample"] = "none"  # whom: nobody, a client with all its data, or each of its samples
    clip: float = 1.0  # C, the longest move that counts, of an answer or of one sample's gradient
    noise: float = 1.0  # σ, deviation of the noise as a multiple of clip
    delta: float = 1e-5  # δ, chance that the promise fails; well below one over the number of those protected
    stop: float | None = None  # ε at which training ends

    def __post_init__(self) -> None:
        if self.name not in ("none", "client", "sample"):
            raise InputError(f"privacy must be none, client or sample, got '{self.name}'")
        if not (self.clip > 0 and math.isfinite(self.clip)):
            raise InputError(f"privacy.clip must be positive, got {self.clip:g}; 1 is usual")
        if not (self.noise > 0 and math.isfinite(self.noise)):
            raise InputError(f"privacy.noise must be positive, got {self.noise:g}; without noise nothing is promised")
        if not 0 < self.delta < 1:
            raise InputError(f"privacy.delta must be between 0 and 1, got {self.delta:g}; 1e-5 is usual")
        if self.stop is not None and not self.stop > 0:
            raise InputError(f"privacy.stop must be a positive ε, got {self.stop:g}; 8 is usual")
        usual = (1.0, 1.0, 1e-5, None)
        if self.name == "none" and (self.clip, self.noise, self.delta, self.stop) != usual:
            raise InputError("privacy.clip, noise, delta and stop have no effect without privacy=client or privacy=sample")

    @property
    def on(self) -> bool:
        """Whether anything is protected."""
        return self.name != "none"
