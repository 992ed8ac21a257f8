"""Pretrained bodies: weights from files, leaves that are frozen and never sent, adapters beside them."""

import copy
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import perfed
from perfed import trees
from perfed.data import Samples
from perfed.errors import DataError, InputError
from perfed.federation import Federation
from perfed.methods import find
from perfed.models import MODELS, Network, build, prepared
from perfed.models.adapters import AdaptedConv, AdaptedLinear
from perfed.runs.assemble import assemble
from perfed.runs.experiment import Experiment
from perfed.task import Task
from perfed.transport import Serial, Site, Stacked, Store
from perfed.wire.ledger import fields

SHAPES = {"fasttext": (9,), "harcnn": (9, 1, 128), "amazon_mlp": (20,), "alexnet_bn": (3, 64, 64), "mlp": (7,)}


def of(name, classes=4, **options):
    vocabulary = 50 if name == "fasttext" else None
    return build(name, shape=SHAPES.get(name, (3, 32, 32)), classes=classes, vocabulary=vocabulary, seed=0, **options)


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"alexnet_bn", "digits_cnn", "logistic"}))
def test_every_network_takes_its_own_weights_back(name, tmp_path):
    other = build(name, shape=SHAPES.get(name, (3, 32, 32)), classes=4, vocabulary=50 if name == "fasttext" else None, seed=1)
    torch.save(other.state_dict(), tmp_path / "whole.pth")
    found = of(name, weights=tmp_path / "whole.pth").state_dict()
    assert all(torch.equal(found[key], value) for key, value in other.state_dict().items())
    save_file(other.body.state_dict(), tmp_path / "body.safetensors")
    found = of(name, weights=str(tmp_path / "body.safetensors"))
    assert all(torch.equal(found.body.state_dict()[key], value) for key, value in other.body.state_dict().items())
    assert all(torch.equal(a, b) for a, b in zip(found.head.parameters(), of(name).head.parameters(), strict=True))


def test_a_network_that_is_all_head_takes_no_weights(tmp_path):
    torch.save(of("logistic").state_dict(), tmp_path / "whole.pth")
    with pytest.raises(InputError, match="logistic has no body"):
        of("logistic", weights=tmp_path / "whole.pth")


def test_a_head_for_other_classes_is_drawn_anew_and_a_wider_body_refused(tmp_path):
    torch.save(of("mlp", classes=9).state_dict(), tmp_path / "nine.pth")
    found = of("mlp", weights=tmp_path / "nine.pth")
    assert torch.equal(found.head.weight, of("mlp").head.weight) and torch.equal(
        found.body[1].weight, of("mlp", classes=9).body[1].weight
    )
    with pytest.raises(DataError, match=r"'body.1.weight' has shape \(64, 7\), expected \(32, 7\) as in mlp"):
        of("mlp", hidden=32, weights=tmp_path / "nine.pth")
    with pytest.raises(DataError, match="is not the file of weights that the run was begun with"):
        of("mlp", weights=tmp_path / "nine.pth", sha256="0" * 64)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"rank": 4}, "model.rank needs model.frozen=body"),
        ({"rank": -1, "frozen": "body"}, "model.rank is a whole number from 0"),
        ({"frozen": "head"}, "model.frozen is none or body, got 'head'"),
        ({"frozen": "body", "alpha": 2.0}, "model.alpha is about adapters"),
        ({"frozen": "body", "adapters": "query"}, "model.adapters is about adapters"),
        ({"frozen": "body", "rank": 2, "adapters": "query"}, "no linear, attention or 1×1 convolution layer called query"),
        ({"sha256": "0"}, "it needs model.weights"),
        ({"projector": 0}, "hidden width of at least 1"),
    ],
)
def test_options_that_do_not_go_together_are_refused_in_a_sentence(options, said):
    with pytest.raises(InputError, match=said):
        of("mlp", **options)


class Attentive(nn.Module):
    """A body of attention and linear layers on 4 tokens of width 6."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.linear = nn.Linear(6, 5)
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        x = x.reshape(-1, 4, 6)
        return self.linear(self.norm(x + self.attention(x, x, x, need_weights=False)[0])).mean(1)


class Pixelwise(nn.Module):
    """A body of convolutions, of which one is 1×1, and BatchNorm."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.thin = nn.Conv2d(4, 6, 1, stride=2)

    def forward(self, x):
        return self.thin(self.norm(self.wide(x.reshape(-1, 1, 4, 6))).relu()).mean((2, 3))


def small(rank, body=Attentive, **options):
    torch.manual_seed(0)
    made = body()
    return prepared(Network(made, nn.Linear(5 if body is Attentive else 6, 3)), frozen="body", rank=rank, **options)


@pytest.mark.parametrize("body", [Attentive, Pixelwise])
def test_an_adapter_begins_as_the_layer_was_and_then_adds_its_product(body):
    plain, adapted, x = small(0, body).eval(), small(2, body, alpha=6).eval(), torch.randn(3, 24)
    assert torch.allclose(plain(x), adapted(x), atol=1e-6)  # attention may take another path to the same
    state = adapted.state_dict()
    layer, thin = ("linear", adapted.body.linear) if body is Attentive else ("thin", adapted.body.thin)
    assert isinstance(thin, AdaptedLinear if body is Attentive else AdaptedConv)
    with torch.no_grad():
        for leaf in adapted.parameters():
            if leaf.requires_grad:
                leaf.normal_()
    merged = copy.deepcopy(plain)
    with torch.no_grad():
        product = 3.0 * state[f"body.{layer}.up"] @ state[f"body.{layer}.down"]
        merged.get_submodule(f"body.{layer}").weight += product.view_as(merged.get_submodule(f"body.{layer}").weight)
        merged.head.load_state_dict(adapted.head.state_dict())
        if body is Attentive:
            for own, path in (("in_proj_weight", "attention"), ("weight", "attention.out_proj")):
                at = f"body.{path}.parametrizations.{own}.0"
                getattr(merged.get_submodule(f"body.{path}"), own).add_(3.0 * state[f"{at}.up"] @ state[f"{at}.down"])
    assert torch.allclose(merged(x), adapted(x), atol=1e-5)


def federated(classes=3, clients=3, each=12):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(clients * each, 24, generator=draw)
    y = torch.arange(clients * each) % classes
    rows = torch.arange(clients * each).split(each)
    train, test = tuple(own[:8] for own in rows), tuple(own[8:] for own in rows)
    names = tuple(f"client {i}" for i in range(clients))
    return Federation(x, y, train, test, test, lambda x, key: x, classes, names)


def rounds(name, net, federation, transport=Serial, count=2):
    """Train a few rounds; return the site, the server's state and the clients' own."""
    method = find(name)(budget=perfed.Budget(batch_size=4, lr=0.1, epochs=2), **({"contrast": 0.5} if name == "dualfed" else {}))
    example = federation.inputs(federation.x[:2], None)
    task = Task.of(copy.deepcopy(net), tuple(example.shape[1:]), 3, seed=0, example=example)
    site, server, first = Site.of(method, task, federation)
    store = Store(first, len(federation))
    carrier = transport(site, store)
    for number in range(1, count + 1):
        server = method.merge(server, carrier.train(server, [0, 1, 2], number, set(), False))
    return site, server, store, carrier


@pytest.mark.parametrize("name", ["fedavg", "fedper", "fedrep", "ditto", "fedcp", "dualfed", "lgfedavg", "fedbabu"])
@pytest.mark.parametrize("body", [Attentive, Pixelwise])
def test_methods_run_on_adapters_unedited_and_never_see_what_is_frozen(name, body):
    net = small(2, body)
    site, server, store, carrier = rounds(name, net, federated())
    frozen = {f"body.{key}" for key, leaf in net.body.named_parameters() if not leaf.requires_grad}
    assert frozen and frozen <= site.task.fixed.keys()
    seen = {path.rpartition("/")[2] for tree in (server, *(store[i] for i in store)) for path, _ in trees.named(tree)}
    assert any(leaf.endswith(".up") for leaf in seen) and not seen & site.task.fixed.keys()
    for key, leaf in (net.body.state_dict()).items():
        outer = f"body.{key}" if f"body.{key}" in site.task.fixed else f"~body.{key}"
        if outer in site.task.fixed:
            assert torch.equal(site.task.fixed[outer], leaf), key  # also statistics of a frozen BatchNorm
    assert any(torch.count_nonzero(leaf) for path, leaf in trees.named((server, store[0])) if path.endswith(".up"))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # of torch, about attention for several clients
@pytest.mark.parametrize("body", [Attentive, Pixelwise])
def test_clients_stacked_on_adapters_agree_with_clients_in_turn(body):
    one, two = (rounds("fedper", small(2, body), federated(), carrier) for carrier in (Serial, Stacked))
    for (path, a), (_, b) in zip(trees.named(one[1]), trees.named(two[1]), strict=True):
        assert torch.allclose(a, b, atol=1e-5), path


@pytest.mark.parametrize("name", ["fedavg", "ditto", "fedper", "fedrep"])
def test_rank_0_is_training_of_the_head_alone_bit_for_bit(name):
    """The reference has no frozen body: its inputs are what the body makes of the samples."""
    net, federation = small(0), federated()
    served = name == "fedrep"  # it asks the served body once for all samples, the others in every step for a step's
    plain = copy.deepcopy(net.body).train(not served)

    def features(x, key):
        with torch.no_grad():
            return torch.cat([plain(part) for part in x.split(100 if served else 4)])

    _, server, store, _ = rounds(name, net, federation)
    seen = replace(federation, inputs=features)
    _, expected, kept, _ = rounds(name, Network(nn.Identity(), net.head), seen)
    found = dict(trees.named((server, store[0], store[1])))
    wanted = dict(trees.named((expected, kept[0], kept[1])))
    assert found.keys() == wanted.keys() and all(torch.equal(found[path], wanted[path]) for path in wanted)
    assert any(path.endswith("head.weight") for path in found)


def test_a_frozen_body_with_adapters_of_rank_8_sends_at_most_a_hundredth():
    with torch.device("meta"):
        net = build("alexnet_bn", shape=(3, 64, 64), classes=10, frozen="body", rank=8)
        whole = 4 * sum(leaf.numel() for leaf in net.parameters())
        task = Task.of(net, (3, 64, 64), 10, device="meta")
        for name in ("fedavg", "fedper"):
            site, server, _ = Site.of(find(name)(), task, federated(classes=10))
            sent = sum(fields(site.method.send(server, 0), site.withheld).values())
            assert 0 < sent <= 0.01 * whole


def test_checkpoints_exports_and_resumes_know_what_is_frozen(tmp_path):
    draw = torch.Generator().manual_seed(0)
    samples = Samples.of(torch.rand(60, 7, generator=draw), torch.arange(60) % 3, group=torch.arange(60) % 3)
    torch.save(build("mlp", shape=(7,), classes=3, seed=5).state_dict(), tmp_path / "w.pth")
    asked = {"name": "mlp", "weights": str(tmp_path / "w.pth"), "frozen": "body", "rank": 2}
    run = perfed.run(
        method="fedper", data=samples, model=asked, rounds=1, out=tmp_path / "runs", transport="serial", progress=False
    )
    model = run.model(0)
    trained = {name for name, _ in model.named_parameters()}
    assert not any("body_1_weight" in name for name in trained) and any("body_1_up" in name for name in trained)
    assert any("frozen" in name and "body_1_weight" in name for name, _ in model.named_buffers())
    card = perfed.export(model, tmp_path / "model.pt2")
    assert card["apart"] < 1e-6
    (tmp_path / "w.pth").write_bytes((tmp_path / "w.pth").read_bytes() + b"0")
    with pytest.raises(DataError, match="is not the file of weights that the run was begun with"):
        perfed.resume(run.path, rounds=2, data=samples, progress=False)


def test_of_a_network_of_narrow_layers_the_last_have_adapters_within_the_share_that_is_asked_for():
    def sent(**options):
        net = build("efficientnet_lite0", shape=(3, 64, 64), classes=7, frozen="body", rank=8, **options)
        trained = sum(leaf.numel() for leaf in net.parameters() if leaf.requires_grad)
        names = {name.rsplit(".", 1)[0] for name, leaf in net.body.named_parameters() if leaf.requires_grad}
        return trained / sum(
            leaf.numel() for leaf in build("efficientnet_lite0", shape=(3, 64, 64), classes=7).parameters()
        ), names

    with torch.device("meta"):
        everywhere, all_of_them = sent()
        hundredth, last = sent(adapters="1%")
        more, several = sent(adapters="2%")
    assert 0.05 < everywhere < 0.06 and len(all_of_them) == 32
    assert 0.0098 < hundredth <= 0.01 and last == {"_conv_head", "_blocks.15._project_conv"}
    assert 0.01 < more <= 0.02 and last < several
    with pytest.raises(InputError, match="an adapter of rank 8 beside '_conv_head' has 12,800 weights, and 7,932 may be sent"):
        sent(adapters="0.5%")
    for wrong in ("0%", "x%", "1%,2%"):
        with pytest.raises(InputError, match="names layers, or one share of the model that is sent, such as 1%"):
            sent(adapters=wrong)


def test_the_head_that_is_drawn_is_the_same_with_any_rank():
    experiments = [Experiment(model={"name": "mlp", "frozen": "body", "rank": rank}, clients=3) for rank in (0, 3)]
    heads = [assemble(experiment, 0).site.task.head.start for experiment in experiments]
    assert torch.equal(heads[0]["head.weight"], heads[1]["head.weight"])


def test_what_a_user_froze_is_frozen_wherever_the_network_comes_from():
    net = nn.Sequential(nn.Linear(24, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    net[0].requires_grad_(False)
    site, server, _, _ = rounds("fedavg", perfed.models.wrap(net), federated())
    assert set(server) == {"body.2.weight", "body.2.bias", "head.weight", "head.bias"}
    assert set(site.task.fixed) == {"body.0.weight", "body.0.bias"}
