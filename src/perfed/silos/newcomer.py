"""What a silo does that came when the experiment was over: fit its own parts to what it is sent, and keep its model."""

from dataclasses import replace
from typing import Any

from .. import trees
from ..errors import InputError, WireError
from ..transport import Newcomers
from ..trees import Tree
from ..wire import decode, encode
from .assignment import Assignment
from .messages import Ask, pack
from .policy import SitePolicy, steps
from .refusals import Refused
from .states import States


def newcomer(ask: Ask, job: Assignment, policy: SitePolicy, states: States, request: str) -> list[dict[str, Any]]:
    """Fit this silo's own parts and keep the model; return its scores before and after, where they may be known."""
    if ask.score is None or ask.score < 1:
        raise InputError(f"nobody joins before the first round, got round {ask.score}")
    if (known := states.answer(ask.score, request)) is not None:
        return list(known[1]["scores"])
    epochs = job.epochs
    if epochs > policy.epochs:
        raise Refused("passes", f"{epochs} passes to join are more than the {policy.epochs} allowed here")
    longer = replace(job.site.method, budget=replace(job.site.method.budget, epochs=epochs))
    policy.admit_size(0, steps(longer, len(job.site.federation.train[0])))
    policy.admit_training(ask.score, states.trained, states.today)
    new = Newcomers(job.site, ask.clients - 1, epochs)
    down, mine = opened(ask.body, job), trees.clone(job.first.mine)
    scores = new.tested(0, (down, mine), ask.score, ask.parts[:1]) if policy.scores else []
    found = new.fitted(0, down, mine, ask.score)
    scores += new.tested(0, found, ask.score, ask.parts[1:]) if policy.scores else []
    told, private = new.private(found)
    plain = list(policy.reported(scores))
    states.put(ask.score, private, base=0, request=request, body=b"", extra={"scores": plain})
    states.serve(*pack(replace(ask, base=ask.score, body=encode(told, job.site.withheld))))
    return plain


def opened(body: bytes, job: Assignment) -> Tree:
    """Return what the server tells, in any form that the method's messages take over a run."""
    wrong: list[WireError] = []
    for like in job.site.method.forms(job.server):
        try:
            return decode(body, like, job.site.withheld)
        except WireError as other:
            wrong.append(other)
    raise wrong[0]
