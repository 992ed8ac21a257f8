"""MLflow: a run per seed, wherever MLflow itself is set to write (MLFLOW_TRACKING_URI)."""

import os
import time
from collections.abc import Mapping
from typing import Any

from .tracker import About

EXPERIMENT = "perfed"
LONGEST = 500  # characters of a parameter that every store takes
MARK = "perfed.id"


class MLflow:
    """Writes metrics through MLflow's client; a seed that goes on goes on in its own run."""

    def __init__(self, about: About) -> None:
        for name, value in (("MAX_RETRIES", "2"), ("TIMEOUT", "10")):  # minutes of retries would hold every round up
            os.environ.setdefault(f"MLFLOW_HTTP_REQUEST_{name}", value)
        from mlflow.entities import Metric, Param
        from mlflow.tracking import MlflowClient

        self.metric: Any = Metric
        self.client = MlflowClient()
        known = self.client.get_experiment_by_name(EXPERIMENT)
        place = known.experiment_id if known else self.client.create_experiment(EXPERIMENT)
        found = self.client.search_runs([place], f"tags.`{MARK}` = '{about.id}'", max_results=1)
        if found:
            self.run = found[0].info.run_id
            self.client.update_run(self.run, status="RUNNING")
            return
        tags = {MARK: about.id, "mlflow.runName": about.name, "perfed.group": about.group}
        self.run = self.client.create_run(place, tags=tags, run_name=about.name).info.run_id
        shown = {
            name: str(value)[:LONGEST] for name, value in {"seed": about.seed, **about.settings}.items() if value is not None
        }
        self.client.log_batch(self.run, params=[Param(name, value) for name, value in shown.items()][:100])

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write the numbers of a round."""
        now = int(time.time() * 1000)
        self.client.log_batch(self.run, metrics=[self.metric(name, value, now, step) for name, value in numbers.items()])

    def close(self) -> None:
        """Mark the run as ended."""
        self.client.set_terminated(self.run)


begin = MLflow
