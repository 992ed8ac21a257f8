"""The server's process: conducts the experiment of the server's folder over the link."""

import logging
import sys
from pathlib import Path

from ...errors import PerfedError
from .. import keep
from ..audit import Audit, Audited
from ..conductor import Conductor
from . import signing
from .carrier import LinkCarrier
from .certificates import Roster


def main(folder: Path) -> None:
    """Conduct the experiment; why it stopped is said in ``stopped.txt``."""
    told = logging.FileHandler(folder / "server.log", encoding="utf-8")
    told.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger("perfed").addHandler(told)
    try:
        with keep.alone(folder) as free:
            if not free:  # an earlier start of this experiment survived and goes on
                return
            carrier = LinkCarrier(folder, Roster(folder))
            try:
                Conductor(folder, Audited(carrier, Audit(folder / "audit", signing.own(folder)))).conduct()
            finally:
                carrier.close()
    except PerfedError as refused:
        (folder / "stopped.txt").write_text(f"{refused}\n", encoding="utf-8")
        raise


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
