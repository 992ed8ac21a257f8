"""Every network of the papers has its published size, and a body and a head."""

import pytest
import torch
from torch import nn

from perfed.errors import InputError
from perfed.models import MODELS, build

SIZES = [
    # cnn: 32·(25c + 1) + 64·(25·32 + 1) + 512·(64·s² + 1) + C·513, s = 4, 5, 13
    ("cnn", (1, 28, 28), 10, {}, 582_026, 512),
    ("cnn", (3, 32, 32), 10, {}, 878_538, 512),
    ("cnn", (3, 32, 32), 100, {}, 924_708, 512),
    ("cnn", (3, 64, 64), 200, {}, 5_694_600, 512),
    ("cnn", (1, 8, 8), 10, {}, 160 + 4_640 + 8_256 + 650, 64),
    # BatchNorm: twice the channels, minus the biases it makes idle
    ("cnn_bn", (1, 28, 28), 10, {}, 582_026 + 2 * (32 + 64) - (32 + 64), 512),
    ("cnn_bn", (1, 8, 8), 10, {}, 13_706 + 48, 64),
    ("resnet8", (3, 32, 32), 10, {}, 1_235_274, 256),
    ("resnet10", (3, 32, 32), 100, {}, 4_957_092, 512),
    ("resnet10", (3, 64, 64), 200, {}, 5_008_392, 512),
    ("resnet18", (3, 64, 64), 200, {}, 11_279_112, 512),
    # the projector: (512 + 1)·256 + 2·256 + (256 + 1)·512 + 2·512 = 264,448, the difference that DualFed's Table 8 shows
    ("resnet18", (3, 64, 64), 7, {"projector": 256}, 11_176_512 + 264_448 + 7 * 513, 512),
    ("fasttext", (200,), 4, {"vocabulary": 98_635}, 98_635 * 32 + 32 * 33 + 4 * 33, 32),
    ("harcnn", (9, 1, 128), 6, {}, 2_624 + 18_496 + 1_704_960 + 524_800 + 3_078, 1664),
    ("amazon_mlp", (5000,), 2, {}, 5_001_000 + 500_500 + 50_100 + 202, 100),
    ("amazon_mlp", (5000,), 2, {"sparse": True}, 5_001_000 + 500_500 + 50_100 + 202, 100),
    ("mlp", (1, 8, 8), 10, {}, 64 * 65 + 10 * 65, 64),
    ("mlp", (20,), 3, {"hidden": [16, 8]}, 16 * 21 + 8 * 17 + 3 * 9, 8),
    ("digits_cnn", (3, 28, 28), 10, {}, 14_219_210, 512),
    ("digits_cnn", (3, 28, 28), 10, {"head": "stack"}, 14_219_210, 6272),
    ("digits_cnn", (3, 28, 28), 10, {"head": "single"}, 312_768 + 62_730, 6272),
    ("digits_cnn", (3, 28, 28), 10, {"bias": False}, 14_219_210 - (64 + 64 + 128 + 2048 + 512), 512),
]


@pytest.mark.parametrize(("name", "shape", "classes", "options", "count", "features"), SIZES)
def test_parameters_features_and_scores(name, shape, classes, options, count, features):
    network = build(name, shape=shape, classes=classes, **options).eval()
    assert sum(parameter.numel() for parameter in network.parameters()) == count
    x = torch.ones(2, *shape, dtype=torch.int64) if name == "fasttext" else torch.rand(2, *shape)
    with torch.no_grad():
        z = network.body(x)
        assert z.shape == (2, features)
        assert torch.equal(network.head(z), network(x))
        assert network(x).shape == (2, classes)


def test_alexnet_has_its_published_parts():
    with torch.device("meta"):
        network = build("alexnet_bn", shape=(3, 256, 256), classes=10)
    convolutions = 23_296 + 307_392 + 663_936 + 884_992 + 590_080 + 2 * (64 + 192 + 384 + 256 + 256)
    linear = 9216 * 4096 + 4096 * 4096 + 2 * 4096 + 4 * 4096 + 40_970
    assert sum(parameter.numel() for parameter in network.parameters()) == convolutions + linear
    assert network.body(torch.empty(2, 3, 256, 256, device="meta")).shape == (2, 4096)
    assert network.body(torch.empty(2, 3, 63, 63, device="meta")).shape == (2, 4096)


def test_digits_at_32_pixels_give_fedpick_8192_features():
    with torch.device("meta"):
        network = build("digits_cnn", shape=(3, 32, 32), classes=10, head="stack")
    assert network.body(torch.empty(2, 3, 32, 32, device="meta")).shape == (2, 8192)
    assert [type(layer) for layer in network.head] == [nn.Linear, nn.BatchNorm1d, nn.ReLU] * 2 + [nn.Linear]


def test_dualfeds_encoder_has_its_published_size():
    body = build("resnet18", shape=(3, 64, 64), classes=7).body
    assert sum(parameter.numel() for parameter in body.parameters()) == 11_176_512


@pytest.mark.parametrize(("name", "last"), [("resnet8", (256, 2, 2)), ("resnet10", (512, 1, 1))])
def test_last_maps_of_the_small_resnets(name, last):
    body = build(name, shape=(3, 32, 32), classes=10).body.eval()
    seen = []
    body.get_submodule(f"layer{body.stages}").register_forward_hook(lambda m, i, out: seen.append(out.shape[1:]))
    body(torch.rand(1, 3, 32, 32))
    assert seen == [last]


def test_a_residual_block_adds_its_shortcut():
    block = build("resnet18", shape=(3, 32, 32), classes=2).body.layer1[1].eval()
    nn.init.zeros_(block.bn2.weight)
    x = torch.randn(1, 64, 4, 4)
    assert torch.equal(block(x), x.relu())


def test_fasttext_touches_only_the_words_of_the_batch_and_counts_padding_in_the_mean():
    network = build("fasttext", shape=(4,), classes=3, vocabulary=50, seed=0)
    tokens = torch.tensor([[5, 7, 0, 0]])
    network(tokens).sum().backward()
    gradient = network.body.embedding.weight.grad
    assert gradient.is_sparse
    assert set(gradient.coalesce().indices()[0].tolist()) <= {0, 5, 7}
    table = network.body.embedding.weight
    assert torch.equal(table[0], torch.zeros(32))
    assert torch.allclose(network.body(tokens), network.body.linear((table[5] + table[7])[None] / 4))


def test_the_sparse_perceptron_computes_the_dense_one_and_touches_only_the_words_of_the_batch():
    dense, sparse = (build("amazon_mlp", shape=(9,), classes=2, seed=0, sparse=each) for each in (False, True))
    x = torch.tensor([[0, 2.0, 0, 0, 0, 0, 1.0, 0, 0], [0.0] * 9, [0, 0, 0, 3.0, 0, 0, -1.0, 0, 0]])
    first = sparse.body[1]
    assert torch.equal(first.weight.t(), dense.body[1].weight)
    assert torch.allclose(sparse(x), dense(x), atol=1e-6)
    assert torch.allclose(sparse.eval()(x), dense(x), atol=1e-6)
    sparse.train()(x).logsumexp(1).sum().backward()
    dense(x).logsumexp(1).sum().backward()
    slope = first.weight.grad
    assert slope.is_sparse
    assert set(slope.coalesce().indices()[0].tolist()) == {1, 3, 6}
    assert torch.allclose(slope.to_dense().t(), dense.body[1].weight.grad, atol=1e-6)
    assert torch.allclose(first.bias.grad, dense.body[1].bias.grad, atol=1e-6)

    def one(weights, sample):
        return torch.func.functional_call(sparse, weights, (sample[None],)).logsumexp(1).sum()

    weights = {name: leaf.detach() for name, leaf in sparse.named_parameters()}
    each = torch.func.vmap(torch.func.grad(one), (None, 0))(weights, x)["body.1.weight"]
    assert torch.allclose(each.sum(0), slope.to_dense(), atol=1e-6)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        first.reset_parameters()
        torch.manual_seed(7)
        assert torch.equal(first.weight.t(), torch.nn.Linear(9, 1000).weight)


def test_harcnn_reads_signals_with_and_without_a_row():
    network = build("harcnn", shape=(9, 128), classes=6, seed=0)
    x = torch.rand(2, 9, 128)
    assert torch.equal(network(x), network(x.unsqueeze(2)))


def test_convolutions_before_batchnorm_have_no_bias_in_cnn_bn():
    for shape in ((1, 28, 28), (1, 8, 8)):
        body = build("cnn_bn", shape=shape, classes=10).body
        assert all(layer.bias is None for layer in body if isinstance(layer, nn.Conv2d))
        assert sum(isinstance(layer, nn.BatchNorm2d) for layer in body) == 2


def test_a_seed_fixes_the_weights_and_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    one, two, other = (build("mlp", shape=(8,), classes=3, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one.head.weight, two.head.weight)
    assert not torch.equal(one.head.weight, other.head.weight)


@pytest.mark.parametrize(
    ("name", "shape", "options", "message"),
    [
        ("cnn", (784,), {}, "cnn takes images (channels, height, width), got inputs of shape (784,)"),
        ("cnn", (1, 3, 8), {}, "cnn takes images of at least 4×4 pixels, got 3×8"),
        ("alexnet_bn", (3, 32, 32), {}, "alexnet_bn takes images of at least 63×63 pixels, got 32×32"),
        ("harcnn", (9, 20), {}, "harcnn takes signals of at least 28 steps, got 20"),
        ("harcnn", (3, 32, 32), {}, "harcnn takes signals (channels, time)"),
        ("amazon_mlp", (1, 8, 8), {}, "amazon_mlp takes features (count,)"),
        ("fasttext", (200,), {}, "fasttext needs the size of the vocabulary"),
        ("fasttext", (1, 28, 28), {"vocabulary": 9}, "fasttext takes sequences of tokens"),
        ("resnet18", (128,), {}, "resnet18 takes images"),
        ("digits_cnn", (3, 28, 28), {"head": "stak"}, "no head of digits_cnn 'stak'; did you mean 'stack'?"),
        ("mlp", (4,), {"hidden": []}, "hidden must be one positive whole number or a list of them"),
        ("mlp", (4,), {"hiden": 3}, "no option of model mlp 'hiden'; did you mean 'hidden'?"),
        ("resnet8", (3, 32, 32), {"hidden": 3}, "no option of model resnet8 'hidden'"),
        ("resnet19", (3, 32, 32), {}, "no model 'resnet19'; did you mean 'resnet18'?"),
        ("mlp", (0,), {}, "positive whole numbers, got (0,)"),
    ],
)
def test_inputs_a_network_cannot_take_are_refused(name, shape, options, message):
    with pytest.raises(InputError) as refusal:
        build(name, shape=shape, classes=10, **options)
    assert message in str(refusal.value)


def test_no_score_is_refused():
    with pytest.raises(InputError, match="at least one score, got 0"):
        build("mlp", shape=(4,), classes=0)


def test_the_catalogue_is_sorted():
    assert list(MODELS) == sorted(MODELS)
