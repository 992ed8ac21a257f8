"""`python -m perfed` is `perfed`, by the Python that is asked: for machines with several environments."""

from .cli import main

main()
