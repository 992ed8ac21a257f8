"""What cannot be promised is refused before anything is trained, in a sentence that says why."""

from typing import Any

from .. import trees
from ..errors import InputError, MethodError
from ..method import Method
from ..task import Task
from ..trees import Tree
from .settings import Privacy


def check(privacy: Privacy, method: Method[Any, Any, Any, Any], task: Task, server: Tree, kept: frozenset[str]) -> None:
    """Refuse a method, a network or a budget for which the promise would not hold; ``kept`` are leaves that never cross."""
    if not privacy.on:
        return
    allowed, why = method.guards(privacy.name)
    if not allowed:
        raise MethodError(f"privacy={privacy.name} is refused for {method.title}: {why}")
    if privacy.name == "sample":
        _check_samples(method, task)
        return
    still = method.unmoved(task, method.send(server, 0))
    for path, _ in trees.named(still):
        if trees.is_state(path) and path.rpartition("/")[2] not in kept:
            raise InputError(
                "privacy=client is refused: BatchNorm's running statistics would be uploaded, and noise makes them no statistics "
                "(a variance below zero); norm=local_stats keeps them at home"
            )


def _check_samples(method: Method[Any, Any, Any, Any], task: Task) -> None:
    if task.needs_pairs:
        raise InputError(
            "privacy=sample is refused: BatchNorm mixes the samples of a batch, so no single sample's part can be clipped; "
            "take a network without it (mlp, cnn), or with GroupNorm or LayerNorm"
        )
    if method.budget.balance != "none":
        raise InputError(
            f"privacy=sample is refused with budget.balance={method.budget.balance}: it weighs samples by how many there are of "
            "each class, which is not noised; leave it at none"
        )
    if method.budget.order != "shuffled":
        raise InputError(
            f"privacy=sample is refused with budget.order={method.budget.order}: there every sample takes part in a step by "
            "chance; leave it out"
        )
    if task.goal == "survival":
        raise InputError("privacy=sample is refused for survival: its loss compares the samples of a batch with each other")
