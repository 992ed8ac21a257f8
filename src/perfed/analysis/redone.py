"""The round after the last state, done again: what clients gain by their own training and lose where answers are merged."""

from math import isnan
from typing import Any

from ..evaluate.scores import Score, columns
from ..evaluate.summary import rates
from ..report import studies
from .convergence import convergence
from .result import Options, Result, percent, plain
from .series import named
from .subject import Subject


def one_round(subject: Subject, options: Options) -> Result:
    """Set what every client is served beside what it would have right after training on it."""
    state, ids = subject.last, subject.chosen(options.client)
    before: list[Score] = []
    after: list[Score] = []
    for client in ids:
        done = state.replay(client)
        before += state.site.judge(client, done.down, done.mine, state.round, ("test",))
        after += state.site.judge(client, done.after, done.kept.mine, state.round + 1, ("test",))
    served: dict[str, Any] = {"round": state.round, "test": columns(before)}
    trained: dict[str, Any] = {"round": state.round + 1, "after": columns(after)}
    found, name, names = convergence([served, trained]), named([served]), [subject.names[client] for client in ids]
    scored = zip(names, rates(served["test"]), rates(trained["after"]), strict=True)
    pairs = [own for own in scored if not isnan(own[1])]  # of clients that have test samples
    rows = [[who, percent(x), percent(y), f"{100 * (y - x):+.2f}"] for who, x, y in pairs]
    kinds = {"before local training": [100 * x for _, x, _ in pairs], "after": [100 * y for *_, y in pairs]}
    says = [
        f"{name} of all test samples: {percent(found.accuracy_before[0])} % as served after round {state.round}, "
        f"{percent(found.accuracy_after[0])} % right after training on it",
        "from the last state alone; a run with after=true has every round",
    ]
    values = plain(found) | {"clients": {who: {"before": float(x), "after": float(y)} for who, x, y in pairs}}
    figure = studies.bars(kinds, [who for who, *_ in pairs], f"{name} (%)")
    return Result(values, says, ["client", "before", "after", "gain"], rows, figure)
