"""The ServerApp that Flower starts for a run: this installed library and nothing else."""

import logging
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Conduct the experiment of the server's folder."""
    from ..transport.flower.exchange import GridCarrier
    from .study import Study, Terms, roster

    folder = Path(str(context.run_config["folder"]))
    logging.basicConfig(filename=folder / "server.log", format="%(asctime)s %(levelname)s %(message)s")
    carrier = GridCarrier(grid, roster(folder, Terms.load(folder / "server.yaml").silos))
    Study(folder, carrier).conduct()
