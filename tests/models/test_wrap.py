"""Any module is seen as body and head, and computes what it did before."""

import pytest
import torch
from torch import nn

from perfed.errors import InputError
from perfed.models import build, wrap


class Torchvision(nn.Module):
    """A model whose forward ends in its attribute ``fc``, like torchvision's."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.bn = nn.BatchNorm2d(3)
        self.fc = nn.Linear(3 * 36, 5)

    def forward(self, x):
        return self.fc(torch.flatten(self.bn(self.conv(x)).relu(), 1))


class Nested(nn.Module):
    """Features and a classifier that is a sequence, like torchvision's VGG."""

    def __init__(self):
        super().__init__()
        self.classifier = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 5))

    def forward(self, x):
        return self.classifier(x.flatten(1))


class WrongOrder(nn.Module):
    """The linear layer defined last is not the one used last."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(16, 5)
        self.first = nn.Linear(64, 16)

    def forward(self, x):
        return self.out(self.first(x.flatten(1)))


MODULES = {
    "sequence": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 5)),
    "sequence with a softmax": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.LogSoftmax(dim=1)),
    "sequence in a sequence": lambda: nn.Sequential(
        nn.Flatten(), nn.Sequential(nn.Linear(64, 16), nn.Linear(16, 5), nn.Identity()), nn.LogSoftmax(dim=1)
    ),
    "module in a sequence": lambda: nn.Sequential(Torchvision(), nn.LogSoftmax(dim=1)),
    "torchvision": Torchvision,
    "nested": Nested,
}


@pytest.mark.parametrize("name", MODULES)
def test_a_wrapped_module_computes_the_same(name):
    module = MODULES[name]().eval()
    x = torch.rand(3, 1, 8, 8)
    network = wrap(module, example=x)
    assert torch.equal(network(x), module(x))
    assert torch.equal(network.head(network.body(x)), module(x))
    assert network.body(x).dim() == 2
    assert any(isinstance(layer, nn.Linear) for layer in network.head.modules())
    counts = [sum(p.numel() for p in each.parameters()) for each in (module, network)]
    assert counts[0] == counts[1]


def test_the_head_is_the_last_linear_layer():
    assert wrap(Torchvision()).head.in_features == 108
    assert wrap(Nested()).head.in_features == 16


def test_the_original_is_left_as_it_was():
    module = Torchvision()
    network = wrap(module)
    network.head.weight.data.zero_()
    assert isinstance(module.fc, nn.Linear)
    assert module.fc.weight.abs().sum() > 0


def test_the_head_can_be_named():
    x = torch.rand(2, 1, 8, 8)
    module = WrongOrder()
    network = wrap(module, "out", example=x)
    assert torch.equal(network(x), module(x))
    assert network.head.in_features == 16
    whole = wrap(Nested(), "classifier")
    assert whole.body(x).shape == (2, 64)


def test_a_head_that_is_not_the_last_step_is_noticed():
    with pytest.raises(InputError, match="'first' is not the last step of WrongOrder"):
        wrap(WrongOrder(), example=torch.rand(2, 1, 8, 8))


def test_networks_of_the_catalogue_pass_through():
    network = build("mlp", shape=(8,), classes=3)
    x = torch.rand(2, 8)
    assert torch.equal(wrap(network)(x), network(x))
    assert wrap(network) is not network


def test_modules_without_a_head_are_refused():
    with pytest.raises(InputError, match="Conv2d has no linear layer"):
        wrap(nn.Conv2d(1, 1, 3))
    with pytest.raises(InputError, match="has no body"):
        wrap(nn.Linear(3, 2))
    with pytest.raises(InputError, match="no submodule 'fcc'; did you mean 'fc'?"):
        wrap(Torchvision(), "fcc")
