"""The ServerApp that Flower starts for a run: this installed library and nothing else."""

import logging
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ...errors import PerfedError

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Conduct the experiment of the server's folder."""
    from ..conductor import Conductor
    from ..keep import alone
    from ..terms import Terms
    from .carrier import GridCarrier
    from .certificates import roster

    folder = Path(str(context.run_config["folder"]))
    told = logging.FileHandler(folder / "server.log", encoding="utf-8")
    told.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger("perfed").addHandler(told)
    try:
        with alone(folder) as free:
            if not free:  # an earlier start of this experiment survived and goes on
                return
            carrier = GridCarrier(grid, roster(folder, Terms.load(folder / "server.yaml").silos))
            Conductor(folder, carrier).conduct()
    except PerfedError as refused:
        (folder / "stopped.txt").write_text(f"{refused}\n", encoding="utf-8")
        raise
