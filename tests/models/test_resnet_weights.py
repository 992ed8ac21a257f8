"""ImageNet weights come from local files, and a file that does not fit is named."""

import pytest
import torch
from safetensors.torch import save_file

from perfed.errors import DataError
from perfed.models import build


@pytest.fixture(scope="module")
def published():
    """A table of weights with torchvision's names, its last layer for 1000 classes."""
    network = build("resnet18", shape=(3, 64, 64), classes=2, seed=3)
    table = {name: tensor.clone() for name, tensor in network.body.state_dict().items()}
    return table | {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}


def written(table, path):
    if path.suffix == ".safetensors":
        save_file(table, path)
    else:
        torch.save(table, path)
    return path


def resnet(weights, channels=3):
    return build("resnet18", shape=(channels, 64, 64), classes=7, seed=0, weights=weights)


@pytest.mark.parametrize("name", ["resnet18.pth", "resnet18.safetensors"])
def test_the_encoder_takes_the_files_weights_and_the_head_stays_new(published, tmp_path, name):
    network = resnet(written(published, tmp_path / name))
    for key, tensor in network.body.state_dict().items():
        assert torch.equal(tensor, published[key])
    assert torch.equal(network.head.weight, resnet(None).head.weight)


def test_names_are_torchvisions(published):
    assert len(published) == 122
    for name in (
        "conv1.weight",
        "bn1.running_var",
        "layer1.0.conv1.weight",
        "layer2.0.downsample.1.bias",
        "layer4.1.bn2.weight",
    ):
        assert name in published


def test_files_without_batch_counters_are_read(published, tmp_path):
    old = {name: tensor for name, tensor in published.items() if not name.endswith("num_batches_tracked")}
    network = resnet(written(old, tmp_path / "old.pth"))
    assert torch.equal(network.body.conv1.weight, published["conv1.weight"])


def test_files_that_do_not_fit_are_named(published, tmp_path):
    path = tmp_path / "weights.pth"
    with pytest.raises(DataError, match="no file of weights at .*weights.pth"):
        resnet(path)
    written({name: tensor for name, tensor in published.items() if name != "bn1.bias"}, path)
    with pytest.raises(DataError, match="weights.pth has no 'bn1.bias'"):
        resnet(path)
    written(published | {"conv1.weight": torch.zeros(64, 3, 3, 3)}, path)
    with pytest.raises(DataError, match=r"'conv1.weight' has shape \(64, 3, 3, 3\), expected \(64, 3, 7, 7\)"):
        resnet(path)
    written(published | {"layer1.2.conv1.weight": torch.zeros(1)}, path)
    with pytest.raises(DataError, match="'layer1.2.conv1.weight', which resnet18 has not"):
        resnet(path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match="weights.pth is damaged"):
        resnet(path)
    torch.save([1, 2], path)
    with pytest.raises(DataError, match="not a table of weights"):
        resnet(path)


class Malicious:
    """What an attacker would put into a pickle."""

    def __reduce__(self):
        return (print, ("code from the file ran",))


def test_code_in_a_file_is_never_run(tmp_path, capsys):
    torch.save({"conv1.weight": Malicious()}, tmp_path / "evil.pth")
    with pytest.raises(DataError, match="evil.pth is damaged or holds more than weights"):
        resnet(tmp_path / "evil.pth")
    assert "ran" not in capsys.readouterr().out


def test_grey_pictures_cannot_use_weights_for_colours(published, tmp_path):
    with pytest.raises(DataError, match=r"'conv1.weight' has shape \(64, 3, 7, 7\), expected \(64, 1, 7, 7\)"):
        resnet(written(published, tmp_path / "any.pth"), channels=1)
