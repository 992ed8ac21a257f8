"""A client's model is an ordinary module with its own tensors and nobody's samples; a run in memory keeps one state."""

import copy
import gc
import io
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import perfed
from perfed import trees
from perfed.errors import InputError
from perfed.partition import build, split


@pytest.fixture(scope="module")
def run() -> perfed.Run:
    clients = perfed.federate("digits", clients=3, partition="iid")
    return perfed.train(clients, "fedper", rounds=2, model="cnn_bn", budget={"lr": 0.05}, transport="serial", progress=False)


def test_a_saved_model_holds_nobodys_samples(run: perfed.Run) -> None:
    model, saved = run.model(0), io.BytesIO()
    torch.save(model, saved)
    federation = run.trained().site.federation
    rows = federation.x[:200]
    content = saved.getvalue()
    assert not any(row.numpy().tobytes() in content for row in rows if int(row.sum()))
    own = sum(leaf.numel() * leaf.element_size() for _, leaf in model.tensors())
    assert len(content) < own + 100_000 < federation.x.numel() + own  # its tensors and its form, nothing of the size of data


def test_an_optimiser_finds_its_parameters_and_gradients_flow(run: perfed.Run) -> None:
    model = run.model(1)
    x, y = run.trained().site.federation.some(1)
    before = nn.functional.cross_entropy(model.raw(x), y)
    step = torch.optim.SGD(model.parameters(), lr=0.05)
    model.train()
    nn.functional.cross_entropy(model.raw(x), y).backward()
    step.step()
    model.eval()
    assert nn.functional.cross_entropy(model.raw(x), y) < before
    with torch.no_grad():
        assert not model.raw(x).requires_grad


def test_train_and_eval_switch_batch_norm_and_states_go_round(run: perfed.Run) -> None:
    model = run.model(2)
    x, _ = run.trained().site.federation.some(2)
    assert not model.training
    served = model.raw(x)
    assert not torch.equal(model.train().raw(x), served)  # by the batch's own statistics
    again = copy.deepcopy(run.model(2))
    again.load_state_dict(run.model(2).state_dict())
    assert torch.equal(again.raw(x), served)
    assert repr(model).startswith("PersonalModel(FedPer, client 2, after round 2, ")


def test_a_client_is_found_by_its_name(run: perfed.Run) -> None:
    assert run.model("client 1").client == 1
    with pytest.raises(InputError, match="did you mean 'client 1'"):
        run.model("client1")


def test_states_of_former_rounds_are_let_go() -> None:
    seen: list[Any] = []

    def heard(_seed: int, done: Any) -> None:
        seen.append(weakref.ref(trees.leaves(done.server)[0]))

    kept = perfed.run(method="fedavg", clients=3, rounds=6, transport="serial", on_round=heard, progress=False)
    gc.collect()
    assert (
        len(seen) == 7 and sum(ref() is not None for ref in seen) <= 2
    )  # the last, and the start that the network is drawn from
    assert len(kept.rounds[0]) == 7


def test_what_has_no_effect_is_refused() -> None:
    clients = perfed.federate("digits", clients=3, partition="iid")
    with pytest.raises(InputError, match="clients has no effect"):
        perfed.run(data=clients, clients=5, rounds=1)
    with pytest.raises(InputError, match="budget.lr"):
        perfed.run(method="fedavg", lr=0.1, rounds=1)
    with pytest.raises(InputError, match="given twice"):
        perfed.run(method={"name": "fedcp", "align": 5}, align=3, rounds=1)
    with pytest.raises(InputError, match="say the same thing"):
        perfed.run(seed=1, seeds=(1, 2), rounds=1)


def test_a_split_in_memory_is_recorded_and_gone_on_with(tmp_path: Path) -> None:
    x = torch.arange(240.0).reshape(60, 4)
    samples = perfed.Samples.of(x, [0, 1] * 30)
    made = split(samples, build("iid"), 3, 0, 0.1, 0.25)
    asked: dict[str, Any] = {"data": samples, "split": made, "method": "fedavg", "transport": "serial"}
    perfed.run(**asked, rounds=1, out=tmp_path, name="it")
    longer = perfed.run(**asked, rounds=2)
    assert perfed.resume(tmp_path / "it", rounds=2, data=samples).digest == longer.digest
