"""What a client's training costs in floating-point operations, counted where torch multiplies matrices and convolves."""

from dataclasses import replace
from typing import Any

from torch.utils.flop_counter import FlopCounterMode

from ..trees import Tree
from .serial import one_thread
from .site import Private, Site

BATCHES = 2  # of one client: passes that a method adds are in proportion to its samples


def per_step(site: Site, server: Tree, first: Private) -> float:
    """Return the operations of one step of local training in the first round, everything that the method adds included.

    Matrix products and convolutions are counted, forward and backward, an addition and a multiplication as two; the rest is
    not worth counting. A step is one batch of the budget: what a method does besides is shared out over these.
    """
    fed, budget = site.federation, site.method.budget
    client = max(range(len(fed)), key=lambda i: fed.sizes[i])
    short = replace(fed, train=tuple(rows[: BATCHES * budget.batch_size] for rows in fed.train))
    counter: Any = FlopCounterMode(display=False)
    with one_thread(), counter:
        replace(site, federation=short).train(client, site.method.send(server, client), first, 1)
    return float(counter.get_total_flops()) / ((budget.steps or -(-short.sizes[client] // budget.batch_size)) * budget.epochs)
