"""The ServerApp that Flower starts for a run: this installed library and nothing else."""

import logging
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ..errors import PerfedError

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Conduct the experiment of the server's folder."""
    from ..transport.flower.exchange import GridCarrier
    from .certificates import roster
    from .study import Study, Terms

    folder = Path(str(context.run_config["folder"]))
    logging.basicConfig(filename=folder / "server.log", format="%(asctime)s %(levelname)s %(message)s")
    try:
        carrier = GridCarrier(grid, roster(folder, Terms.load(folder / "server.yaml").silos))
        Study(folder, carrier).conduct()
    except PerfedError as refused:
        (folder / "stopped.txt").write_text(f"{refused}\n", encoding="utf-8")
        raise
