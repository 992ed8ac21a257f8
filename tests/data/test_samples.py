"""Samples refuse parts that do not fit, and their digest follows the contents."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
import torch

from perfed.data import Samples
from perfed.data.portion import portion, positions
from perfed.errors import DataError, InputError


def small(**more):
    made = Samples(
        x=torch.arange(4 * 1 * 2 * 2, dtype=torch.uint8).view(4, 1, 2, 2),
        y=torch.tensor([0, 1, 0, 1]),
        classes=("cat", "dog"),
        group=torch.tensor([0, 0, 1, 1]),
        groups=("north", "south"),
        test=torch.tensor([False, False, False, True]),
        name="small",
    )
    return replace(made, **more)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"x": torch.zeros(4, 1, 2, 2)}, "small: x is float32 4×1×2×2, but 'image' samples are uint8 N×C×H×W"),
        ({"x": torch.zeros(4, 2, dtype=torch.uint8)}, "x is uint8 4×2"),
        ({"x": torch.zeros(3, 1, 2, 2, dtype=torch.uint8)}, "x has 3 samples, but y has 4"),
        ({"y": torch.tensor([0, 1, 0, 2])}, "label 2 of sample 3 is outside 0..1"),
        ({"y": torch.tensor([0, -1, 0, 1])}, "label -1 of sample 1 is outside 0..1"),
        ({"y": torch.tensor([0.0, 1, 0, 1])}, "y is float32 4, but labels are int64"),
        ({"group": torch.tensor([0, 0, 1, 2])}, "group 2 of sample 3 is outside 0..1"),
        ({"groups": ("north", "north")}, "the group name 'north' occurs twice"),
        ({"test": torch.tensor([0, 0, 0, 1])}, "test is int64 4, but it is bool"),
        ({"texts": ("a",)}, "x has 4 samples, but texts has 1"),
    ],
)
def test_parts_that_do_not_fit_are_refused(wrong, said):
    with pytest.raises(DataError, match=said):
        small(**wrong)


def test_an_unknown_kind_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'image'"):
        small(kind="imge")


def test_numbers_that_are_not_finite_are_refused_with_their_sample():
    x = torch.zeros(3, 2)
    x[1, 0] = float("nan")
    with pytest.raises(DataError, match="sample 1 has a value that is not a finite number"):
        Samples(x, torch.tensor([0, 0, 0]), ("a",), kind="features")


def test_no_samples_are_refused():
    with pytest.raises(DataError, match="there are no samples"):
        Samples(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), ("a",), kind="features")


def test_equal_contents_have_equal_digests_and_any_change_shows():
    reference = small().digest()
    assert small().digest() == reference
    assert small(name="other").digest() == reference  # a name is no content
    changes = [
        {"x": small().x + 1},
        {"x": small().x.view(4, 1, 1, 4)},
        {"y": torch.tensor([1, 1, 0, 1])},
        {"classes": ("cat", "cow")},
        {"group": torch.tensor([0, 1, 1, 1])},
        {"groups": ("north", "east")},
        {"test": None},
    ]
    digests = {small(**change).digest() for change in changes}
    assert len(digests) == len(changes) and reference not in digests


def test_a_digest_is_the_same_on_every_machine():
    assert small().digest() == "427531677ee59db65fa598c38c71f4063e311e84784937e3745b44b3a1cc91d7"


def test_the_digest_of_texts_does_not_depend_on_a_vocabulary():
    raw = Samples.of(["a b", "c"], [0, 1])
    assert raw.kind == "tokens" and raw.texts == ("a b", "c") and raw.x.shape == (2, 0)
    assert replace(raw, x=torch.tensor([[1, 2], [3, 0]], dtype=torch.int32)).digest() == raw.digest()
    assert Samples.of(["a", "b c"], [0, 1]).digest() != raw.digest()
    assert Samples.of(["a bc", ""], [0, 1]).digest() != raw.digest()


def test_taking_positions_takes_every_part():
    part = small().take([3, 0])
    assert part.x[:, 0, 0, 0].tolist() == [12, 0]
    assert part.y.tolist() == [1, 0] and part.group.tolist() == [1, 0] and part.test.tolist() == [True, False]
    assert Samples.of(["a", "b", "c"], [0, 1, 1]).take([2, 0]).texts == ("c", "a")


def test_images_of_users_are_put_in_order():
    grey = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    assert Samples.of(grey, [0, 1]).x.shape == (2, 1, 3, 4)
    last = np.arange(2 * 5 * 4 * 3, dtype=np.uint8).reshape(2, 5, 4, 3)
    first = Samples.of(last, [0, 1]).x
    assert first.shape == (2, 3, 5, 4) and first[1, 2, 3, 1] == last[1, 3, 1, 2]


def test_floats_become_bytes_only_without_loss():
    bytes_ = torch.tensor([0, 1, 127, 255], dtype=torch.uint8).view(1, 1, 2, 2)
    assert torch.equal(Samples.of(bytes_.float() / 255, [0]).x, bytes_)
    assert torch.equal(Samples.of(bytes_.float(), [0]).x, bytes_)
    with pytest.raises(DataError, match="values from -0.5 to 0.25, but images are uint8"):
        Samples.of(torch.tensor([-0.5, 0.25, 0, 0]).view(1, 1, 2, 2), [0])


def test_kinds_are_told_from_type_and_axes():
    assert Samples.of(np.zeros((2, 5)), [0, 1]).kind == "features"
    assert Samples.of(np.zeros((2, 9, 1, 128)), [0, 1]).kind == "signal"
    assert Samples.of(np.zeros((2, 9, 128)), [0, 1]).kind == "signal"
    with pytest.raises(DataError, match="say which kind it is with kind="):
        Samples.of(np.zeros((2, 5), dtype=np.int64), [0, 1])
    assert Samples.of(np.zeros((2, 5), dtype=np.int64), [0, 1], kind="tokens").x.dtype == torch.int32


def test_labels_and_groups_may_be_names_or_numbers():
    x = np.zeros((3, 2))
    named = Samples.of(x, ["dog", "cat", "dog"], group=[10, 2, 10])
    assert named.classes == ("cat", "dog") and named.y.tolist() == [1, 0, 1]
    assert named.groups == ("2", "10") and named.group.tolist() == [1, 0, 1]
    assert Samples.of(x, [1, 2, 2], classes=("a", "b", "c")).y.tolist() == [1, 2, 2]
    assert Samples.of(x, ["b", "a", "b"], classes=("b", "a")).y.tolist() == [0, 1, 0]
    with pytest.raises(InputError, match="no label 'cow'; did you mean 'crow'"):
        Samples.of(x, ["cow", "cat", "cat"], classes=("cat", "crow"))
    with pytest.raises(DataError, match="labels are float64"):
        Samples.of(x, [0.5, 1, 2])


def test_a_map_style_dataset_becomes_samples():
    class Pairs(torch.utils.data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return torch.full((1, 2, 2), i / 255), torch.tensor(i % 2)

    made = Samples.of(Pairs())
    assert made.kind == "image" and made.x[:, 0, 0, 0].tolist() == [0, 1, 2] and made.y.tolist() == [0, 1, 0]


def test_a_dataset_that_is_none_or_uneven_is_refused():
    with pytest.raises(DataError, match="item 1 of the dataset has the shape"):
        Samples.of([(np.zeros(2), 0), (np.zeros(3), 1)])
    with pytest.raises(DataError, match="item 0 of the dataset is not a pair"):
        Samples.of([3, 4])
    with pytest.raises(DataError, match="has no length"):
        Samples.of(iter([]))


def crowd():
    y = torch.tensor([0] * 100 + [1] * 20 + [2] * 3)
    test = torch.arange(123) % 10 == 0
    return Samples(torch.arange(123.0).view(-1, 1), y, ("a", "b", "c"), kind="features", test=test)


def test_a_fraction_keeps_every_class_and_part_in_proportion():
    part = portion(crowd(), 0.1)
    # class a: 90 + 10 of the parts, b: 18 + 2, c: 2 + 1; a tenth of each, rounded, at least one
    counts = [[int(((part.y == c) & (part.test == t)).sum()) for t in (False, True)] for c in range(3)]
    assert counts == [[9, 1], [2, 1], [1, 1]]
    assert part.x.flatten().tolist() == sorted(part.x.flatten().tolist())


def test_a_fraction_is_the_same_every_time():
    assert positions(crowd(), 0.05).tolist() == [3, 15, 30, 46, 59, 74, 100, 118, 120, 122]
    assert portion(crowd(), 1.0).x.shape == (123, 1)


def test_a_data_frame_is_taken_by_the_names_of_its_columns() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"age": [60, 50, 40], "bmi": [1.5, 2.5, 3.5], "label": ["ill", "well", "ill"], "site": ["a", "b", "a"]}
    )
    made = Samples.of(frame, group="site")
    assert made.kind == "features" and made.x.tolist() == [[60.0, 1.5], [50.0, 2.5], [40.0, 3.5]]
    assert made.classes == ("ill", "well") and made.groups == ("a", "b") and made.y.tolist() == [0, 1, 0]
    renamed = frame.rename(columns={"label": "diagnosis"})
    assert Samples.of(renamed, "diagnosis", group="site").digest() == made.digest()
    assert Samples.of(pandas.DataFrame({"text": ["good", "bad"], "label": [1, 0]})).texts == ("good", "bad")


def test_a_table_in_python_has_the_options_of_a_table_in_a_file() -> None:
    columns = {"age": [Decimal("60.5"), Decimal("50"), None], "stage": [1, 2, 1], "id": ["x1", "x2", "x3"], "ill": [1, 0, 1]}
    made = Samples.of(columns, "ill", drop="id", categories=["stage"], scale="client")
    assert made.sheet is not None and made.sheet.scale == "client"
    assert [(c.name, c.kind) for c in made.sheet.columns] == [("age", "number"), ("stage", "category")]
    assert made.sheet.columns[0].values[:2].tolist() == [60.5, 50.0] and np.isnan(made.sheet.columns[0].values[2])
    with pytest.raises(InputError, match="no option of data set data frame 'sclae'; did you mean 'scale'"):
        Samples.of(columns, "ill", sclae="client")
    with pytest.raises(InputError, match="scale: options of data frames and tables, and this is a list"):
        Samples.of([[1.0], [2.0]], [0, 1], scale="client")
    with pytest.raises(DataError, match="row 1 has no value in the column 'note'"):
        Samples.of({"note": ["good", None], "label": [1, 0]})


def test_items_of_other_tasks_have_several_numbers_as_label() -> None:
    pairs = [(np.ones(3, dtype=np.float32), torch.tensor([float(i), 1.0])) for i in range(4)]
    assert Samples.of(pairs, task="survival").y.tolist() == [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]


@pytest.mark.parametrize(
    ("change", "given", "said"),
    [
        ({}, {"y": "lable"}, "no column 'lable'; did you mean 'label'"),
        ({"y": [0, 1]}, {}, r"say which column is the label, as in Samples.of\(frame, 'y'\); there are age, label, y"),
        ({"label": [1, None]}, {}, "the frame: row 1 has no value in the column 'label'"),
        ({"born": ["1990-02-03", "1991-04-05"]}, {}, "the frame: row 0, column 'born': '1990-02-03' is a date"),
    ],
)
def test_a_data_frame_that_is_not_clear_is_refused(change, given, said) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [60.0, 50.0], "label": [0, 1]} | change)
    with pytest.raises((DataError, InputError), match=said):
        Samples.of(frame, **given)


def test_items_that_are_dicts_are_taken_by_their_keys() -> None:
    rows = [{"image": np.full((4, 4), i, dtype=np.uint8), "label": i % 2, "id": i} for i in range(4)]
    made = Samples.of(rows)
    assert made.kind == "image" and made.x.shape == (4, 1, 4, 4) and made.y.tolist() == [0, 1, 0, 1]
    fine = [{"img": row["image"], "fine": row["label"]} for row in rows]
    assert Samples.of(fine, "fine").digest() == made.digest()
    with pytest.raises(InputError, match="no key 'fin'; did you mean 'fine'"):
        Samples.of(fine, "fin")
    with pytest.raises(DataError, match="say which key is the label"):
        Samples.of(fine)
    with pytest.raises(DataError, match="not clear which of a, b is the input"):
        Samples.of([{"a": 1.0, "b": 2.0, "label": 0}])
