"""What torch calls private is used in one file, and without it numbers are the same."""

import ast
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.func import vmap

import perfed
from perfed import keys, testing, trees
from perfed.local import Batch, Budget, descend, private
from perfed.machine import checkup
from perfed.methods.fedavg import FedAvg
from perfed.methods.fedpick import FedPick
from perfed.transport import Stacked

SRC = Path(perfed.__file__).parent
PRIVATE = ("torch._", "torch.cpu._", "nn.modules.")  # beginnings of names that are nobody's promise
BUDGETS = {
    "sgd": Budget(lr=0.1, batch_size=8),
    "momentum and decay": Budget(lr=0.1, batch_size=8, momentum=0.5, weight_decay=0.05),
    "adam": Budget(lr=0.01, batch_size=8, optimizer="adam"),
}


def test_private_names_of_torch_stand_in_one_file() -> None:
    for path in sorted(SRC.rglob("*.py")):
        if path.name == "private.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                said = ast.unparse(node)
                assert not said.startswith(PRIVATE) or said.endswith("__version__"), f"{path}: {said}"
            if isinstance(node, ast.ImportFrom) and node.module:
                assert not f"{node.module}.".startswith(PRIVATE), f"{path}: {node.module}"


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As with a torch that has none of it."""
    monkeypatch.setattr(private, "VMAP", False)
    monkeypatch.setattr(private, "FOREACH", False)
    return monkeypatch


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_one_client_takes_the_same_steps_to_the_bit(budget: Budget, public: pytest.MonkeyPatch) -> None:
    ends = []
    for there in (False, True):
        public.setattr(private, "FOREACH", there)
        public.setattr(private, "VMAP", there)
        ends.append(testing.play(FedAvg(budget=budget), testing.federation(3), norm=True, count=2).states())
    assert trees.equal(*ends)


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "norm"])
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_clients_along_an_axis_take_the_same_steps(budget: Budget, norm: bool, public: pytest.MonkeyPatch) -> None:
    """Clients of unequal sizes are padded and masked; FedPick without its entropy has leaves that nothing uses."""
    data = testing.federation(sizes=[24] * 3 if norm else [24, 4, 30])
    method = FedPick(entropy=0.0, norm="local_stats", budget=budget)
    within = testing.play(method, data, norm=norm, count=2, make=Stacked).states()
    public.setattr(private, "VMAP", True)
    behind = testing.play(method, data, norm=norm, count=2, make=Stacked).states()
    assert testing.gap(within, behind) <= 1e-5


def test_a_leaf_outside_the_loss_is_left_alone_even_by_weight_decay(public: pytest.MonkeyPatch) -> None:
    def end(target: Tensor) -> dict[str, Tensor]:
        batch = Batch(target[None], torch.zeros(1, dtype=torch.int64), None, target.sum().long())
        start = {"used": torch.ones(2), "unused": torch.ones(2)}
        return descend(lambda w, b: (w["used"] * b.x).sum(), start, [batch] * 3, Budget(lr=0.1, weight_decay=0.5))

    found = vmap(end)(torch.arange(6.0).view(3, 2))
    assert found["unused"].eq(1).all() and not found["used"].eq(1).any()


def test_layers_are_told_by_public_classes_where_their_base_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [nn.BatchNorm2d(2), nn.Dropout(), nn.InstanceNorm1d(2), nn.Linear(2, 2)]
    bases = {"_BatchNorm": "batchnorm", "_DropoutNd": "dropout", "_InstanceNorm": "instancenorm"}
    before = [[isinstance(layer, private.kinds(base)) for layer in layers] for base in bases]
    for base, home in bases.items():
        monkeypatch.delattr(getattr(nn.modules, home), base)
    assert before == [[isinstance(layer, private.kinds(base)) for layer in layers] for base in bases]
    assert before == [[True, False, False, False], [False, True, False, False], [False, False, True, False]]


def test_rows_of_a_sparse_slope_by_hand() -> None:
    slope = torch.sparse_coo_tensor(torch.tensor([[2, 0, 2]]), torch.tensor([[1.0], [2.0], [3.0]]), (4, 1), check_invariants=True)
    where, values = private.rows(slope)
    assert torch.zeros(4, 1).index_add(0, where, values).flatten().tolist() == [2, 0, 4, 0]


def test_bf16_is_asked_of_torch_one_way_or_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    assert private.bf16()
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    for has in (False, True):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda has=has: has, raising=False)
        assert private.bf16() == has
    assert next(c for c in checkup()["checks"] if c["what"] == "bf16")["state"] in ("ok", "absent")


def test_a_key_tells_clients_along_an_axis_from_one(public: pytest.MonkeyPatch) -> None:
    seen = []
    vmap(lambda key: (seen.append(private.stacked(key)), key)[1])(torch.arange(2))
    assert seen == [True] and not private.stacked(keys.key(0))
