"""Who is kept out of training altogether, and who the others are."""

from collections.abc import Sequence
from typing import Any

from .. import keys
from ..data import Samples
from ..errors import InputError, suggest
from ..federation import PARTS, Federation
from ..partition import Split
from .experiment import Experiment


def kept_out(experiment: Experiment, names: Sequence[str], seed: int) -> list[int]:
    """Return the numbers of the clients that no round sees; a share or a number of them is drawn from the split's seed."""
    asked = experiment.unseen
    if not asked:
        return []
    if isinstance(asked, tuple):
        for name in asked:
            if name not in names:
                raise suggest("client in unseen", name, names)
        found = sorted({names.index(name) for name in asked})
    else:
        count = max(1, round(asked * len(names))) if isinstance(asked, float) else int(asked)
        owner = seed if experiment.split_seed is None else experiment.split_seed
        found = sorted(keys.permutation(keys.key(owner, "unseen"), len(names))[:count].tolist())
        if count > len(names):
            raise InputError(f"unseen={asked} keeps more clients out than there are: {len(names)}")
    if len(found) == len(names):
        raise InputError(f"unseen keeps all {len(names)} clients out of training: nobody is left to train")
    return found


def parted(experiment: Experiment, federation: Federation, seed: int) -> tuple[Federation, Federation | None]:
    """Return those who train, and those who are kept out where some are; each keeps the randomness it would have had."""
    out = kept_out(experiment, federation.names, seed)
    if not out:
        return federation, None
    return federation.only([place for place in range(len(federation)) if place not in out]), federation.only(out)


def clients_of(samples: Samples, split: Split, out: Sequence[int] = ()) -> dict[str, Any]:
    """Return who the clients are: names, sizes, labels, classes, and the scores of guessing the most frequent label.

    Those who train stand in the first place; those who are kept ``out`` have an object of their own.
    """
    who = Federation.of(samples, split, lambda x, key: x)
    told = _described(who.only([place for place in range(len(who)) if place not in out]))
    told["classes"] = list(samples.classes)
    return told | ({"unseen": _described(who.only(out))} if out else {})


def _described(who: Federation) -> dict[str, Any]:
    correct, count = who.majority()
    return {
        "names": list(who.names),
        **{part: [len(rows) for rows in getattr(who, part)] for part in PARTS},
        "labels": who.counts().tolist(),
        "classes": [],
        "majority": {"correct": correct, "count": count},
    }
