"""A silo that lies: in round N it sends the Nth of the answers that cannot be right."""

import sys
from pathlib import Path

from lies import CHANGES

from perfed.silos.flower import node
from perfed.silos.flower.resident import Resident
from perfed.silos.messages import Ask, SiloAnswer, pack, unpack


class Liar(Resident):
    def answer(self, head: str, body: bytes) -> tuple[str, bytes]:
        told = super().answer(head, body)
        ask = unpack(Ask, head, body)
        if ask.train is None or self.silo._last is None:
            return told
        return pack(CHANGES[ask.train - 1][1](unpack(SiloAnswer, *told), self.silo._last[1].site.task.params()))


if __name__ == "__main__":
    node.Resident = Liar  # type: ignore[attr-defined, misc]
    node.main([Path(sys.argv[1])])
