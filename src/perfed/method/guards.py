"""What noise on uploads means for a method: verbs and words by which it says what is let go, or why it cannot be."""

from typing import Any, ClassVar, Generic

from ..local import Budget, Shard
from ..task import Task
from .views import Down, Up


class Guards(Generic[Down, Up]):
    """What a method says of differential privacy; one that says nothing is refused it."""

    title: ClassVar[str]
    budget: Budget
    guarded: ClassVar[str] = ""  # for privacy=client | for privacy=sample: "yes: what that means" or "no: why not"
    home: ClassVar[tuple[str, ...]] = ()  # streams of batches whose steps never lead to the answer: they need no noise

    def guards(self, level: str) -> tuple[bool, str]:
        """Return whether the method can be guarded at a level, and what that means or why not.

        Args:
            level: ``client`` or ``sample``.

        Returns:
            Yes or no, and the reason in words.

        Example:
            >>> from perfed.methods.fedproto import FedProto
            >>> FedProto().guards("sample")[0]
            False
        """
        parts = [part.strip() for part in self.guarded.split("|")]
        if len(parts) != 2:
            return False, "its class does not say what noise would mean for it; `guarded` in docs/privacy.md says how"
        word, _, why = parts[("client", "sample").index(level)].partition(": ")
        return word == "yes", why

    @property
    def guarded_passes(self) -> int:
        """Passes over the samples whose steps lead to the answer: what the accountant is told of."""
        return self.budget.epochs

    def unmoved(self, task: Task, down: Down) -> Any:
        """Return the answer of a client that learned nothing: what clipping measures from. What is not in it is not let go.

        Args:
            task: The network.
            down: What the client was sent.

        Returns:
            A tree of what is clipped and noised; by default what was sent.

        Example:
            >>> from perfed.methods.fedper import FedPer
            >>> from perfed.testing import task
            >>> body, head = FedPer().init(task(), clients=2)
            >>> FedPer().unmoved(task(), body) is body
            True
        """
        return down

    def derived(self, task: Task, down: Down, released: Any, data: Shard) -> Up:
        """Return the whole answer, where parts of it follow from what was let go and what is known: they need no noise.

        Args:
            task: The network.
            down: What the client was sent.
            released: What was let go: `unmoved`, moved.
            data: The client's samples; no more than their number may be used.

        Returns:
            The answer; by default what was let go.

        Example:
            >>> from perfed.methods.fedper import FedPer
            >>> from perfed.testing import federation, task
            >>> body, head = FedPer().init(task(), clients=2)
            >>> FedPer().derived(task(), body, body, federation(2).shard(0, 1, 10, False)) is body
            True
        """
        return released  # type: ignore[no-any-return]
