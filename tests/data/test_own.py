"""The user's own folders, archives and tables."""

import numpy as np
import pytest
import torch
from PIL import Image

from perfed.data import Samples, load
from perfed.errors import DataError, InputError


def picture(path, value, size=(4, 4)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value,) * 3).save(path)


def by_pixel(samples, part):
    """Return a part of the samples by the value of their first pixel, as their order is mixed."""
    return dict(zip(samples.x[:, 0, 0, 0].tolist(), getattr(samples, part).tolist(), strict=True))


def test_folders_by_class_have_no_clients(tmp_path):
    picture(tmp_path / "dog/1.png", 1)
    picture(tmp_path / "cat/2.JPG", 2)
    (tmp_path / "notes.txt").write_text("not a picture")
    made = load(f"folder:{tmp_path}")
    assert made.classes == ("cat", "dog") and made.group is None and made.test is None
    assert by_pixel(made, "y") == {1: 1, 2: 0} and made.x.shape == (2, 3, 4, 4) and made.name == tmp_path.name


def test_folders_by_client_and_class_give_one_group_per_silo(tmp_path):
    picture(tmp_path / "leeds/ill/1.png", 10)
    picture(tmp_path / "leeds/well/1.png", 20)
    picture(tmp_path / "york/well/1.png", 30)
    made = load(f"folder:{tmp_path}", channels=1)
    assert made.groups == ("leeds", "york") and by_pixel(made, "group") == {10: 0, 20: 0, 30: 1}
    assert made.classes == ("ill", "well") and by_pixel(made, "y") == {10: 0, 20: 1, 30: 1}
    assert made.x.shape == (3, 1, 4, 4)


@pytest.mark.parametrize("order", ["{part}/{client}/{label}", "{client}/{part}/{label}"])
def test_a_level_that_says_train_or_test_is_the_official_split(tmp_path, order):
    for client in ("a", "b"):
        for part in ("train", "test"):
            picture(tmp_path / order.format(part=part, client=client, label="x") / "1.png", 5)
    made = load(f"folder:{tmp_path}")
    assert made.groups == ("a", "b") and made.classes == ("x",)
    owned = sorted(zip(made.group.tolist(), made.test.tolist(), strict=True))
    assert owned == [(0, False), (0, True), (1, False), (1, True)]


def test_validation_is_the_test_part_only_where_there_is_no_other(tmp_path):
    picture(tmp_path / "train/x/1.png", 5)
    picture(tmp_path / "val/x/1.png", 6)
    assert by_pixel(load(f"folder:{tmp_path}"), "test") == {5: False, 6: True}
    picture(tmp_path / "test/x/1.png", 7)
    assert by_pixel(load(f"folder:{tmp_path}"), "test") == {5: False, 6: False, 7: True}


def test_bad_folders_are_named(tmp_path):
    with pytest.raises(DataError, match="has no pictures"):
        load(f"folder:{tmp_path}")
    picture(tmp_path / "a/b/c/d/1.png", 1)
    with pytest.raises(DataError, match="1.png: pictures lie in CLASS/ or CLIENT/CLASS/"):
        load(f"folder:{tmp_path}")
    with pytest.raises(InputError, match="there is nothing at '/nowhere"):
        load("folder:/nowhere/at/all")


def test_own_pictures_of_different_sizes_or_corrupt_are_named(tmp_path):
    picture(tmp_path / "dog/1.png", 1)
    picture(tmp_path / "dog/2.png", 1, size=(5, 7))
    with pytest.raises(DataError, match=r"1.png has 4×4 pixels, but .*2.png has 5×7; size=7 would resize them all"):
        load(f"folder:{tmp_path}")
    assert load(f"folder:{tmp_path}", size=6).x.shape == (2, 3, 6, 6)
    (tmp_path / "dog/3.png").write_bytes(b"not a picture")
    with pytest.raises(DataError, match="3.png is no readable picture"):
        load(f"folder:{tmp_path}", size=6)
    assert len(load(f"folder:{tmp_path}", size=6, skip_corrupt=True)) == 2


def test_an_unknown_source_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'folder:'"):
        load("foldr:x")


def test_npz_with_groups_and_names(tmp_path):
    np.savez(
        tmp_path / "mine.npz",
        x=np.zeros((3, 4), np.float32),
        y=np.array([1, 0, 1]),
        classes=np.array(["no", "yes"]),
        group=np.array(["b", "a", "b"]),
        test=np.array([0, 0, 1]),
    )
    made = load(f"npz:{tmp_path / 'mine.npz'}")
    assert made.kind == "features" and made.classes == ("no", "yes") and made.y.tolist() == [1, 0, 1]
    assert made.groups == ("a", "b") and made.group.tolist() == [1, 0, 1] and made.test.tolist() == [False, False, True]


def test_npz_with_a_training_and_a_test_part(tmp_path):
    x = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=[0, 1], x_test=x[:1], y_test=[1])
    made = load(f"npz:{tmp_path / 'mine.npz'}", size=6)
    assert made.x.shape == (3, 1, 6, 6) and made.test.tolist() == [False, False, True]


def test_a_folder_of_npz_files_is_one_client_each_and_labels_match_by_name(tmp_path):
    np.savez(tmp_path / "oslo.npz", x=np.zeros((2, 4)), y=["b", "c"])
    np.savez(tmp_path / "rome.npz", x=np.ones((2, 4)), y=["a", "b"])
    made = load(f"npz:{tmp_path}")
    assert made.groups == ("oslo", "rome") and made.group.tolist() == [0, 0, 1, 1]
    assert made.classes == ("a", "b", "c") and made.y.tolist() == [1, 2, 0, 1]
    np.savez(tmp_path / "siena.npz", x=np.ones((2, 5)), y=["a", "b"])
    with pytest.raises(DataError, match=r"siena.npz holds features \(5,\), but .*oslo.npz holds features \(4,\)"):
        load(f"npz:{tmp_path}")


def test_npz_errors_name_the_file(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.zeros((3, 4)), y=[0, 1])
    with pytest.raises(DataError, match="mine.npz: mine: x has 3 samples, but y has 2"):
        load(f"npz:{tmp_path / 'mine.npz'}")
    np.savez(tmp_path / "mine.npz", x=np.zeros((3, 4)))
    with pytest.raises(DataError, match="mine.npz.* has no array 'y'; it has x"):
        load(f"npz:{tmp_path / 'mine.npz'}")
    np.savez(tmp_path / "mine.npz", x=np.zeros((2, 4)), y=[0, 1])
    with pytest.raises(InputError, match="size=8 resizes images, but mine holds features"):
        load(f"npz:{tmp_path / 'mine.npz'}", size=8)


TABLE = "age,dose,ward,ill,held\n30,0.5,2,yes,0\n40,1,10,no,0\n50,2,2,no,1\n"


def test_csv_with_label_client_and_test_columns(tmp_path):
    (tmp_path / "ward.csv").write_text(TABLE)
    made = load(f"csv:{tmp_path / 'ward.csv'}", label="ill", client="ward", test="held")
    assert made.kind == "features" and made.x.dtype == torch.float32
    assert made.x.tolist() == [[30, 0.5], [40, 1], [50, 2]]
    assert made.classes == ("no", "yes") and made.y.tolist() == [1, 0, 0]
    assert made.groups == ("2", "10") and made.group.tolist() == [0, 1, 0]
    assert made.test.tolist() == [False, False, True]


def test_csv_with_texts(tmp_path):
    (tmp_path / "post.csv").write_text('label,body,extra\n1,"a, b",\n0,c,\n')
    made = load(f"csv:{tmp_path / 'post.csv'}", text="body")
    assert made.kind == "tokens" and made.texts == ("a, b", "c") and made.y.tolist() == [1, 0]


def test_a_folder_of_tables_is_one_client_each(tmp_path):
    (tmp_path / "a.csv").write_text("label,x\n10,1\n2,2\n")
    (tmp_path / "b.csv").write_text("label,x\n2,3\n")
    made = load(f"csv:{tmp_path}")
    assert made.groups == ("a", "b") and made.classes == ("2", "10") and made.y.tolist() == [1, 0, 0]
    with pytest.raises(InputError, match="one table per client"):
        load(f"csv:{tmp_path}", client="x")


@pytest.mark.parametrize(
    ("body", "options", "said"),
    [
        (TABLE, {}, "ward.csv has no column 'label'; it has age, dose, ward, ill, held"),
        (TABLE.replace("no,0", ",0"), {"label": "ill"}, "row 3 has no value in the column 'ill'"),
        ("label,a\n0.5,1\n1,2\n", {}, "ward.csv: labels are float64, but they are whole numbers or names"),
        (TABLE, {"label": "ill", "test": "age"}, "row 2, column 'age': '30' says neither test"),
        ("label,a\n", {}, "ward.csv has a header, but no rows"),
        ("", {}, "ward.csv is no readable csv file"),
        ("label\n1\n", {}, "there is no column besides label"),
    ],
)
def test_bad_tables_are_named(tmp_path, body, options, said):
    (tmp_path / "ward.csv").write_text(body)
    with pytest.raises(DataError, match=said):
        load(f"csv:{tmp_path / 'ward.csv'}", **options)


def test_a_fraction_of_own_data_can_be_taken(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.zeros((40, 4)), y=[0, 1] * 20)
    part = load(f"npz:{tmp_path / 'mine.npz'}", fraction=0.1)
    assert isinstance(part, Samples) and part.y.tolist().count(0) == 2 and len(part) == 4
