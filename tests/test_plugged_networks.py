"""A part of a task computes what `torch.func.functional_call` computes, and holds on to nobody's tensors."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from perfed.task.part import Part, part_of


class Tied(nn.Module):
    """One weight in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        if x.isnan().any():
            raise ValueError("not a number")
        return self.second(self.first(x).relu())


def part(module: nn.Module) -> Part:
    return part_of("net", module, torch.device("cpu"), "fp32")


def test_values_and_slopes_are_those_of_functional_call() -> None:
    module = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Sequential(nn.Linear(5, 2)))
    made, x = part(module), torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    params = {name: (2 * leaf).requires_grad_() for name, leaf in made.start.items()}
    inner = {name.removeprefix("net."): leaf for name, leaf in params.items()}
    found, expected = made(params, x), functional_call(module, inner, (x,))
    assert torch.equal(found, expected)
    slopes = [torch.autograd.grad(out.square().sum(), list(params.values())) for out in (found, expected)]
    assert all(torch.equal(a, b) for a, b in zip(*slopes, strict=True))


def test_a_weight_in_two_places_is_one_leaf_and_plugged_into_both() -> None:
    made = part(Tied())
    assert list(made.start) == ["net.first.weight"]
    params = {"net.first.weight": 3 * torch.eye(4)}
    assert torch.equal(made(params, torch.ones(1, 4)), torch.full((1, 4), 9.0))


def test_running_state_moves_in_the_caller_s_tensors_only() -> None:
    made = part(nn.Sequential(nn.BatchNorm1d(2)))
    params, x = made.params(), torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    made(params, x)
    assert params["~net.0.running_mean"].tolist() == pytest.approx([0.2, 0.4])  # a tenth of the means 2 and 4
    assert int(params["~net.0.num_batches_tracked"]) == 1
    assert made.start["~net.0.running_mean"].tolist() == [0.0, 0.0]
    assert made.skeleton.training.state_dict()["0.running_mean"].tolist() == [0.0, 0.0]


def test_after_a_failure_the_module_has_its_own_tensors_back() -> None:
    made = part(Tied())
    before = made.skeleton.training.first.weight  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="not a number"):
        made({"net.first.weight": torch.eye(4)}, torch.full((1, 4), torch.nan))
    assert made.skeleton.training.first.weight is before  # type: ignore[union-attr]
