"""Clients that no round has seen: each joins a server's state, fits its own parts on its samples, and is tested."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import trees
from ..errors import InputError
from ..evaluate.scores import Score
from ..federation import Federation
from ..trees import Tree
from .serial import one_thread
from .site import Private, Site


@dataclass(frozen=True)
class Newcomers:
    """Who may join, what they join, and how often each may visit its samples to fit its own parts.

    They join one after another in this process, whatever carries the rounds: a newcomer's bits are the same everywhere.
    """

    site: Site  # the method and the task, with the newcomers' data
    clients: int  # how many have trained
    epochs: int

    @staticmethod
    def of(site: Site, federation: Federation, epochs: int) -> "Newcomers":
        """Return the newcomers to a site; those who have too few samples to fit anything are refused."""
        least = 2 if site.task.needs_pairs else 1
        for name, size in zip(federation.names, federation.sizes, strict=True):
            if size < least:
                raise InputError(f"{name} has {size} training samples; a newcomer needs at least {least} to fit its parts")
        return Newcomers(replace(site, federation=federation), len(site.federation), epochs)

    def welcome(self, server: Tree) -> tuple[Tree, Tree]:
        """Return what a newcomer is sent, and the private state that it starts from; the server stays as it is."""
        method = self.site.method
        down = method.send(method.admit(server), self.clients)
        return down, trees.clone(method.init(self.site.task, self.clients + 1)[1])

    def join(self, server: Tree, client: int, number: int) -> tuple[Tree, Tree]:
        """Return the states that a newcomer predicts with, once it has fitted its own parts after round ``number``."""
        return self.fitted(client, *self.welcome(server), number)

    def fitted(self, client: int, down: Tree, mine: Tree, number: int) -> tuple[Tree, Tree]:
        """Return the states of a newcomer who was sent ``down`` and starts from ``mine``, once it has fitted its own parts."""
        method = self.site.method
        longer = replace(method, budget=replace(method.budget, epochs=self.epochs))
        with one_thread():
            return replace(self.site, method=longer).join(client, down, mine, number)

    def score(self, server: Tree, number: int, parts: tuple[str, ...] = ("test",)) -> list[list[Score]]:
        """Return how every newcomer does on each part of its data after it has joined."""
        everyone = range(len(self.site.federation))
        return [self.tested(client, self.join(server, client, number), number, parts) for client in everyone]

    def tested(self, client: int, states: tuple[Tree, Tree], number: int, parts: Sequence[str]) -> list[Score]:
        """Return how a newcomer does with the states that it has."""
        with one_thread():
            return self.site.judge(client, *states, number, tuple(parts))

    def private(self, states: tuple[Tree, Tree]) -> tuple[Tree, Private]:
        """Return the states as a client has them: a message, and what it keeps."""
        down, kept = self.site.withheld.hide(states[0])
        return down, Private(states[1], kept)
