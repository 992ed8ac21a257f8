"""What a client may spend in a round: the same for every method that is compared."""

from dataclasses import dataclass
from typing import Literal

from ..errors import InputError


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a client may spend in a round; the optimiser's state starts anew each time.

    Args:
        lr: Step size.
        epochs: Passes over the client's training samples.
        batch_size: Samples per step.
        momentum: Of plain descent; 0 is none.
        weight_decay: Pull of all parameters towards zero.
        optimizer: ``sgd`` or ``adam``.
        balance: For labels of which some are rare: ``weights`` weighs each sample by how rare its class is at its client,
            ``samples`` draws every class of a client equally often.
        order: Of a client's samples in a pass: ``shuffled`` anew each time, or always as they are ``stored``.
        steps: Batches of a pass, drawn without end from the samples in ever new orders; by default as many as the samples fill.

    Raises:
        InputError: If a value cannot be right.

    Example:
        >>> from perfed import Budget
        >>> Budget(lr=0.1, epochs=5).batch_size
        10
        >>> Budget(lr=-1)
        Traceback (most recent call last):
        perfed.errors.InputError: budget.lr must be positive, got -1; 0.005 suits the 4-layer CNN
    """

    lr: float = 0.005  # η, step size of local training
    epochs: int = 1  # E, passes over a client's training samples in a round
    batch_size: int = 10  # B, samples of a step
    momentum: float = 0.0  # of sgd
    weight_decay: float = 0.0  # pull of all weights towards zero
    optimizer: Literal["sgd", "adam"] = "sgd"  # whose state starts anew in every round
    balance: Literal["none", "weights", "samples"] = "none"  # rare classes weigh more, or are drawn as often as others
    order: Literal["shuffled", "stored"] = "shuffled"  # of samples in a pass: new each time, or always that of the data
    steps: int | None = None  # batches of a pass, drawn without end; by default as many as a client's samples fill

    def __post_init__(self) -> None:
        if not self.lr > 0:
            raise InputError(f"budget.lr must be positive, got {self.lr:g}; 0.005 suits the 4-layer CNN")
        if self.epochs < 1:
            raise InputError(f"budget.epochs must be at least 1, got {self.epochs}")
        if self.balance not in ("none", "weights", "samples"):
            raise InputError(f"budget.balance must be none, weights or samples, got '{self.balance}'")
        if self.order not in ("shuffled", "stored"):
            raise InputError(f"budget.order must be shuffled or stored, got '{self.order}'")
        if self.order == "stored" and self.balance == "samples":
            raise InputError(
                "budget.balance=samples draws samples by chance, so there is no stored order; leave budget.order out"
            )
        if self.steps is not None and self.steps < 1:
            raise InputError(f"budget.steps must be at least 1, got {self.steps}; leave it out for whole passes")
        if self.batch_size < 1:
            raise InputError(f"budget.batch_size must be at least 1, got {self.batch_size}")
        if not 0 <= self.momentum < 1:
            raise InputError(f"budget.momentum must be in [0, 1), got {self.momentum:g}")
        if self.weight_decay < 0:
            raise InputError(f"budget.weight_decay must not be negative, got {self.weight_decay:g}")
        if self.optimizer not in ("sgd", "adam"):
            raise InputError(f"budget.optimizer must be sgd or adam, got '{self.optimizer}'")
        if self.optimizer == "adam" and self.momentum:
            raise InputError("budget.momentum belongs to sgd; adam has its own moments, so leave it at 0")
