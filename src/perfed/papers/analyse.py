"""The analyses that a recipe asks for, on the runs of its cells."""

from collections.abc import Iterator

from perfed.papers.run import Work


def analyse(work: Work) -> Iterator[str]:
    """Run a recipe's analyses on its finished cells; yield what could not be done and why."""
    yield from ()
