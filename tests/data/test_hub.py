"""Hugging Face data sets, tiny and made here; skipped where the library is not installed."""

import numpy as np
import pytest
from PIL import Image

from perfed.data import Samples, load
from perfed.errors import DataError, InputError

datasets = pytest.importorskip("datasets")
FEATURES, LABEL = datasets.Features, datasets.ClassLabel(names=["no", "yes"])


def pictures(count=4, mode="L"):
    made = [Image.new(mode, (5, 5), 40 * i if mode == "L" else (40 * i, 0, 0)) for i in range(count)]
    held = {"image": made, "label": [i % 2 for i in range(count)], "writer": [f"w{i % 3}" for i in range(count)]}
    kinds = {"image": datasets.Image(), "label": LABEL, "writer": datasets.Value("string")}
    return datasets.Dataset.from_dict(held, features=FEATURES(kinds))


@pytest.mark.parametrize("mode, channels", [("L", 1), ("RGB", 3)])
def test_pictures_of_an_object_and_of_a_folder_are_the_same(tmp_path, mode, channels):
    found = pictures(mode=mode)
    samples = Samples.of(found, group="writer")
    assert samples.x.shape == (4, channels, 5, 5) and samples.x[:, 0, 0, 0].tolist() == [0, 40, 80, 120]
    assert samples.classes == ("no", "yes") and samples.groups == ("w0", "w1", "w2") and samples.group.tolist() == [0, 1, 2, 0]
    found.save_to_disk(tmp_path / "digits")
    again = load(f"hf:{tmp_path / 'digits'}", client="writer")
    assert again.digest() == samples.digest() and again.name == "digits"
    assert load(f"hf:{tmp_path / 'digits'}", client="writer", size=3).shape == (channels, 3, 3)


def test_splits_are_the_official_parts(tmp_path):
    both = datasets.DatasetDict(train=pictures(4), test=pictures(2))
    assert Samples.of(both, group="writer").test.tolist() == [False] * 4 + [True] * 2
    both.save_to_disk(tmp_path / "both")
    assert load(f"hf:{tmp_path / 'both'}", client="writer").test.sum() == 2
    with pytest.raises(InputError, match="has splits train, test, so there is no test column"):
        load(f"hf:{tmp_path / 'both'}", client="writer", test="label")


def test_texts_arrays_and_numbers_are_told_by_their_features():
    texts = datasets.Dataset.from_dict({"text": ["so good", "bad"], "label": ["pos", "neg"]})
    assert Samples.of(texts).texts == ("so good", "bad") and Samples.of(texts).classes == ("neg", "pos")
    signals = datasets.Dataset.from_dict({"x": np.arange(24.0).reshape(2, 3, 4).tolist(), "target": [0, 1]})
    assert Samples.of(signals).kind == "signal" and Samples.of(signals).shape == (3, 4)
    table = datasets.Dataset.from_dict({"age": [30, 41], "weight": [70.5, 80.0], "ill": [1, 0]})
    assert Samples.of(table, "ill").x.tolist() == [[30, 70.5], [41, 80]] and Samples.of(table, "ill").kind == "features"


def test_tables_have_gaps_words_and_other_tasks(tmp_path):
    held = {
        "age": [30, 41, None, 50],
        "sex": ["f", "m", "f", "m"],
        "stage": [0, 1, 1, 0],
        "dose": [1.5, 2.0, 3.0, 4.0],
        "id": [1, 2, 3, 4],
    }
    stage = datasets.ClassLabel(names=["late", "early"])
    table = datasets.Dataset.from_dict(held).cast_column("stage", stage)
    made = Samples.of(table, "dose", task="regression", drop=["id"])
    assert made.task == "regression" and [(c.name, c.kind) for c in made.sheet.columns] == [
        ("age", "number"),
        ("sex", "category"),
        ("stage", "category"),
    ]
    table.save_to_disk(tmp_path / "table")
    again = load(f"hf:{tmp_path / 'table'}", label="dose", task="regression", drop="id")
    assert again.digest() == made.digest()
    named = Samples.of(table, "stage", drop=["id", "dose", "sex"])
    assert named.classes == ("late", "early") and named.y.tolist() == [0, 1, 1, 0]
    with pytest.raises(InputError, match="scale: options of tables, and this data set is none"):
        Samples.of(pictures(), scale="client")


@pytest.mark.parametrize(
    "held, said",
    [
        ({"text": ["a", None], "label": [0, 1]}, "row 1 of the data set has no value in the column 'text'"),
        ({"x": [[1.0], [2.0]], "age": [1, 2], "label": [0, 1]}, r"x \(List\), age \(Value\): one picture, one text"),
        ({"x": [[1.0], [1.0, 2.0]], "label": [0, 1]}, "lists of different lengths"),
        ({"text": ["a", "b"]}, "say which column is the label"),
        ({"text": [], "label": []}, "is empty"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(held, said):
    with pytest.raises(DataError, match=said):
        Samples.of(datasets.Dataset.from_dict(held))


def test_streams_other_folders_and_wrong_columns_are_refused_in_a_sentence(tmp_path):
    with pytest.raises(DataError, match="is a stream; save it with save_to_disk"):
        Samples.of(pictures().to_iterable_dataset())
    with pytest.raises(DataError, match="is no folder that save_to_disk wrote"):
        load(f"hf:{tmp_path}")
    with pytest.raises(InputError, match="did you mean 'writer'"):
        Samples.of(pictures(), group="writers")
    with pytest.raises(InputError, match="follow from its features"):
        Samples.of(pictures(), classes=["a", "b"])
