"""FedAvg in Flower's own simulation on exported work: `python peer.py FOLDER ROUNDS`, with `flwr[simulation]` and torch only.

The clients are as quick as they can be made by hand: data loaded once per actor, channels last, a `foreach` update.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
import torch.nn.functional as F
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn

FOLDER, ROUNDS = Path(sys.argv[1]), int(sys.argv[2])
WHAT = json.loads((FOLDER / "work.json").read_text())
LR, BATCH = WHAT["lr"], WHAT["batch_size"]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, WHAT["classes"]),
    )  # fmt: skip


def samples(client: int) -> dict[str, torch.Tensor]:
    held = torch.__dict__.setdefault("_peer_samples", {})  # functions travel to the actors by value; modules stay there
    if client not in held:
        held[client] = read(client)
    return held[client]  # type: ignore[no-any-return]


def read(client: int) -> dict[str, torch.Tensor]:
    torch.set_num_threads(1)
    with np.load(FOLDER / f"client-{client}.npz", allow_pickle=False) as found:
        made = {name: torch.from_numpy(found[name]) for name in found.files}
    for part in ("train_x", "test_x"):
        x = (made[part].float() / 255 - 0.5) / 0.5
        made[part] = x.squeeze(1).unsqueeze(-1).permute(0, 3, 1, 2)
    return made


def loaded(message: Message) -> nn.Sequential:
    net = network()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return net


app = ClientApp()


@app.train()
def train(message: Message, context: Any) -> Message:
    net, own = loaded(message), samples(int(context.node_config["partition-id"]))
    params, order = list(net.parameters()), torch.randperm(len(own["train_y"]))
    for x, y in zip(own["train_x"][order].split(BATCH), own["train_y"][order].split(BATCH), strict=True):
        slopes = torch.autograd.grad(F.cross_entropy(net(x), y), params)
        with torch.no_grad():
            torch._foreach_add_(params, slopes, alpha=-LR)
    content = {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord({"num-examples": len(order)})}
    return Message(content=RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Any) -> Message:
    net, own = loaded(message), samples(int(context.node_config["partition-id"]))
    with torch.no_grad():
        parts = zip(own["test_x"].split(1000), own["test_y"].split(1000), strict=True)
        correct = sum(int((net(x).argmax(1) == y).sum()) for x, y in parts)
    count = len(own["test_y"])
    metrics = MetricRecord({"accuracy": correct / count, "num-examples": count})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)


BEGAN, TIMES, ACCURACY = time.time(), list[float](), list[float]()
server = ServerApp()


@server.main()
def main(grid: Any, context: Any) -> None:
    strategy = FedAvg(min_available_nodes=WHAT["clients"])
    start = ArrayRecord(network().state_dict())

    def note(number: int, arrays: Any) -> None:  # called at the start and after every round
        TIMES.append(time.time())

    found = strategy.start(grid=grid, initial_arrays=start, num_rounds=ROUNDS, evaluate_fn=note)
    ACCURACY.extend(float(metrics["accuracy"]) for metrics in found.evaluate_metrics_clientapp.values())


run_simulation(
    server,
    app,
    num_supernodes=WHAT["clients"],
    backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": os.cpu_count() or 1}},
)
seconds = [b - a for a, b in zip(TIMES, TIMES[1:], strict=False)]
print("RESULT " + json.dumps({"before": TIMES[0] - BEGAN, "rounds": seconds, "accuracy": ACCURACY}))
