"""A round of every verb of a method, and a newcomer, wherever the tensors are."""

from typing import Any

from torch import Tensor

from perfed import trees
from perfed.federation import Federation
from perfed.server import Uploads
from perfed.transport import Newcomers, Site


def made(method: Any, site: Site, server: Any, first: Any, new: Federation) -> list[Tensor]:
    """Run every verb for a round of three clients; return what comes out."""
    ups, privates = [], []
    for client in range(3):
        up, private, whole = site.train(client, method.send(server, client), first, 1)
        ups.append(up)
        privates.append(private)
        method.after(method.send(server, client), whole)
    server = method.merge(server, Uploads([0, 1, 2], [20, 20, 20], ups))
    down = method.send(server, 1)
    below, mine = site.adapted(1, down, privates[1].mine, 2)
    over = site.withheld.overlay(below, privates[1].kept)
    scores = method.predict(site.task.served, over, mine, site.federation.x[:4])
    site.train(1, down, privates[1], 2)
    joined = Newcomers.of(site, new, 1).join(server, 0, 2)
    found = [*trees.leaves(ups), *trees.leaves(mine), *trees.leaves(down), *trees.leaves(joined), scores]
    return found + [leaf for message in method.forms(server) for leaf in trees.leaves(message)]
