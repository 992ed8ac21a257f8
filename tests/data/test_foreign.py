"""Other libraries' folders: PFLlib's clients, LEAF's writers."""

import json

import numpy as np
import pytest
import torch

import perfed
from perfed.data import load
from perfed.errors import DataError
from perfed.serving.predict import load as opened


def pfllib(folder, clients=3, x=None, classes=4, **config):
    """Write a folder as PFLlib's generators do."""
    random = np.random.default_rng(0)
    for part, count in (("train", 8), ("test", 4)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for client in range(clients):
            grey = random.integers(0, 256, (count, 1, 10, 10))
            own = ((grey / 255 - 0.5) / 0.5).astype(np.float32) if x is None else x(count)
            np.savez_compressed(folder / part / f"{client}.npz", data={"x": own, "y": np.arange(count) % classes})
    (folder / "config.json").write_text(json.dumps({"num_clients": clients, "num_classes": classes} | config))
    return folder


def test_pfllibs_clients_keep_their_parts_and_their_pictures(tmp_path):
    samples = load(f"pfllib:{pfllib(tmp_path / 'MNIST', clients=11)}")
    assert samples.kind == "image" and samples.shape == (1, 10, 10) and samples.classes == ("0", "1", "2", "3")
    assert samples.groups == tuple(map(str, range(11))) and samples.name == "MNIST"
    mine = samples.take((samples.group == 10).nonzero().flatten())
    assert mine.test.tolist() == [False] * 8 + [True] * 4 and mine.y.tolist() == [0, 1, 2, 3] * 3
    told = np.load(tmp_path / "MNIST/train/10.npz", allow_pickle=True)["data"][()]["x"]
    assert np.allclose((mine.x[:8].float() / 255 - 0.5) / 0.5, told, atol=1e-6)


def test_pfllibs_folder_is_a_federation_in_one_line(tmp_path):
    clients = perfed.federate(f"pfllib:{pfllib(tmp_path)}", validation=0)
    assert perfed.train(clients, "fedper", rounds=1, progress=False).accuracies().keys() == {"0", "1", "2"}
    assert clients.sizes == [8, 8, 8] and [len(rows) for rows in clients.test] == [4, 4, 4]


@pytest.mark.parametrize(
    "make, kind, shape",
    [
        (lambda n: np.ones((n, 9, 1, 16), np.float32), "signal", (9, 1, 16)),
        (lambda n: np.full((n, 5), 0.3), "features", (5,)),
        (lambda n: np.full((n, 3, 8, 8), 7.7, np.float32), "signal", (3, 8, 8)),  # no grey levels: as they are
        (lambda n: np.array([([1 + i, 2, 3], 3) for i in range(n)], dtype=object), "tokens", (3,)),
    ],
)
def test_what_pfllibs_samples_are_is_told_from_their_form(tmp_path, make, kind, shape):
    samples = load(f"pfllib:{pfllib(tmp_path, x=make)}")
    assert (samples.kind, samples.shape) == (kind, shape)


@pytest.mark.parametrize(
    "spoil, said",
    [
        (lambda f: (f / "test/1.npz").unlink(), "client 1 has a file in one of train/ and test/ only"),
        (lambda f: [file.unlink() for file in (f / "train").iterdir()], r"has no files 0\.npz"),
        (lambda f: (f / "train/0.npz").write_bytes(b"nothing"), r"train/0\.npz is no file of a PFLlib client"),
        (lambda f: np.savez(f / "train/0.npz", data=np.arange(3)), r"'data' is int64 \(3,\) and not one dict"),
        (lambda f: np.savez(f / "train/0.npz", data={"x": [[1.0]]}), "holds no dict with x and y"),
        (lambda f: np.savez(f / "train/0.npz", data={"x": np.ones((2, 3)), "y": [1]}), r"shape \(2, 3\) and y \(1,\)"),
        (
            lambda f: np.savez(f / "train/1.npz", data={"x": np.ones((2, 3)), "y": [1, 0]}),
            r"train/1\.npz holds samples 3 float64",
        ),
        (lambda f: (f / "config.json").write_text('{"num_classes": 2}'), "num_classes=2, but there is a label 3"),
        (lambda f: (f / "config.json").write_text("{"), "does not say num_classes"),
    ],
)
def test_a_pfllib_folder_that_is_not_whole_is_refused_in_a_sentence(tmp_path, spoil, said):
    spoil(pfllib(tmp_path))
    with pytest.raises(DataError, match=said):
        load(f"pfllib:{tmp_path}")


def test_lists_that_stand_for_more_than_memory_holds_are_refused(tmp_path):
    held = [0] * 50_000
    np.savez(pfllib(tmp_path) / "train/0.npz", data={"x": [held] * 50_000, "y": np.arange(50_000)})
    with pytest.raises(DataError, match="neither arrays nor lists of tokens"):
        load(f"pfllib:{tmp_path}")
    for _ in range(6):
        held = [held] * 50
    np.savez(tmp_path / "train/0.npz", data={"x": held, "y": np.arange(50)})
    with pytest.raises(DataError, match="neither arrays nor lists of tokens"):
        load(f"pfllib:{tmp_path}")


def leaf(folder, users, parts=("train", "test")):
    """Write files as LEAF's preprocessing does, one writer per file."""
    for part in parts:
        (folder / part).mkdir(parents=True, exist_ok=True)
        for number, (user, (x, y)) in enumerate(users.items()):
            held = {"users": [user], "num_samples": [len(y)], "user_data": {user: {"x": x, "y": y}}}
            (folder / part / f"all_data_{number}_keep_0_{part}.json").write_text(json.dumps(held))
    return folder


def test_femnists_writers_are_the_clients(tmp_path):
    grey = [[k / 255] * 784 for k in (0, 17, 255)]
    samples = load(f"leaf:{leaf(tmp_path, {'f0001_41': (grey, [3, 61, 3]), 'f0002_01': (grey[:1], [0])})}")
    assert samples.kind == "image" and samples.shape == (1, 28, 28) and samples.classes == ("0", "3", "61")
    assert samples.groups == ("f0001_41", "f0002_01") and samples.group.tolist() == [0, 0, 0, 1] * 2
    assert samples.x[:, 0, 0, 0].tolist() == [0, 17, 255, 0] * 2 and samples.test.tolist() == [False] * 4 + [True] * 4


def test_shakespeares_lines_are_characters_and_the_next_one_is_the_label(tmp_path):
    samples = load(f"leaf:{leaf(tmp_path / 'data', {'HAMLET': (['to b', 'o be'], ['e', ' '])}).parent}")
    assert samples.kind == "tokens" and samples.shape == (4,) and samples.classes == (" ", "e")
    assert samples.x[:2].tolist() == [[5, 4, 1, 2], [4, 1, 2, 3]]  # of ' ', 'b', 'e', 'o', 't', from 1


def test_shakespeares_writers_train_and_their_models_are_used(tmp_path):
    text = "to be or not to be that is the question whether tis nobler"
    lines = {
        who: ([text[i + at : i + at + 8] for i in range(20)], [text[i + at + 8] for i in range(20)])
        for at, who in enumerate("AB")
    }
    done = perfed.run(
        data=f"leaf:{leaf(tmp_path / 'leaf', lines)}", method="fedper", rounds=1, progress=False, out=tmp_path / "runs"
    )
    file = tmp_path / "a.safetensors"
    perfed.export(done.model(0), file)
    samples = load(f"leaf:{tmp_path / 'leaf'}")
    known = opened(file)
    assert torch.equal(known.scores(samples.x), done.model(0).raw(samples.x).detach())
    with pytest.raises(DataError, match="the model takes numbers of words or characters below"):
        known.fit.texts(["to be or"])


def test_leafs_other_sets_are_texts_and_numbers(tmp_path):
    tweet = [["1", "Mon", "no query", "ann", "so happy today", "x"], ["2", "Tue", "no query", "ann", "sad", "x"]]
    samples = load(f"leaf:{leaf(tmp_path / 'sent', {'ann': (tweet, [4, 0])}, parts=('train',))}")
    assert samples.texts == ("so happy today", "sad") and samples.test is None
    assert load(f"leaf:{leaf(tmp_path / 'synth', {'f_0': ([[0.5, 1.5]], [1])})}").kind == "features"


@pytest.mark.parametrize(
    "content, said",
    [
        ("[]", "is no file of LEAF with users and user_data"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1]], "y": []}}}', "writer 'a' does not have one label for each"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1]], "y": [null]}}}', "neither a number nor a text"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1], [1, 2]], "y": [0, 1]}}}', "inputs of 1 and of 2 numbers"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[1], "b"], "y": [0, 1]}}}', "texts and numbers"),
        ('{"users": ["a"], "user_data": {"a": {"x": [{}], "y": [0]}}}', "neither a text nor numbers"),
        ('{"users": [], "user_data": {}}', "no samples"),
    ],
)
def test_a_leaf_file_that_is_not_right_is_refused_in_a_sentence(tmp_path, content, said):
    (tmp_path / "train").mkdir()
    (tmp_path / "train/a.json").write_text(content)
    with pytest.raises(DataError, match=said):
        load(f"leaf:{tmp_path}")
