"""Every reader, on small files in the published formats."""

import bz2
import csv
import gzip
import io
import struct

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from perfed.data import load
from perfed.errors import DataError, InputError


def write(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)


def idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def picture(path, colour, size=(4, 4), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


def jpegs(values):
    """Return the bytes of flat grey pictures and where each begins."""
    bodies = []
    for value in values:
        out = io.BytesIO()
        Image.new("RGB", (8, 8), (value,) * 3).save(out, "JPEG", quality=95)
        bodies.append(out.getvalue())
    offsets = np.cumsum([0, *map(len, bodies)])
    return np.frombuffer(b"".join(bodies), np.uint8), offsets


MNIST_X, MNIST_Y = np.arange(3 * 28 * 28).reshape(3, 28, 28).astype(np.uint8), np.array([7, 0, 9], np.uint8)


def mnist(folder, zipped=True, x=MNIST_X, y=MNIST_Y):
    squeeze, suffix = (gzip.compress, ".gz") if zipped else (bytes, "")
    for part in ("train", "t10k"):
        write(folder / f"{part}-images-idx3-ubyte{suffix}", squeeze(idx(x)))
        write(folder / f"{part}-labels-idx1-ubyte{suffix}", squeeze(idx(y)))


@pytest.mark.parametrize(("folder", "zipped"), [("mnist", True), ("mnist", False), ("MNIST/raw", False)])
def test_idx_files_are_read_packed_and_unpacked(tmp_path, folder, zipped):
    mnist(tmp_path / folder, zipped)
    made = load("mnist", root=tmp_path)
    assert made.x.shape == (6, 1, 28, 28) and made.x.dtype == torch.uint8
    assert np.array_equal(made.x[:3, 0].numpy(), MNIST_X)
    assert made.y.tolist() == [7, 0, 9, 7, 0, 9] and made.test.tolist() == [False] * 3 + [True] * 3
    assert made.classes == tuple("0123456789") and made.name == "mnist"


def test_the_same_files_give_mnist_or_fashion_mnist_by_their_folder_only(tmp_path):
    mnist(tmp_path / "mnist")
    assert load("mnist", root=tmp_path / "mnist").name == "mnist"  # the set's own folder may be named
    with pytest.raises(DataError, match="no files of fashion_mnist"):
        load("fashion_mnist", root=tmp_path / "mnist")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"PK\3\4 no", "is not an IDX file: it begins with 504b0304"),
        (b"", "is not an IDX file: it begins with nothing"),
        (idx(MNIST_X)[:-5], "has 2,363 bytes, but its header promises 2,368"),
        (idx(MNIST_X)[:9], "ends within its header"),
        (idx(MNIST_Y), "holds uint8 with 1 axes, but images are bytes with three"),
        (idx(MNIST_X[:2]), "has 3 labels, but .* has 2 images"),
    ],
)
def test_damaged_idx_files_are_named(tmp_path, body, said):
    mnist(tmp_path / "mnist", zipped=False)
    write(tmp_path / "mnist/train-images-idx3-ubyte", body)
    with pytest.raises(DataError, match=f"train-(images-idx3|labels-idx1)-ubyte {said}"):
        load("mnist", root=tmp_path)


def test_a_truncated_gzip_is_named(tmp_path):
    mnist(tmp_path / "mnist")
    path = tmp_path / "mnist/train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="train-images-idx3-ubyte.gz cannot be read.*fetch it again"):
        load("mnist", root=tmp_path)


def test_a_label_out_of_range_is_named(tmp_path):
    mnist(tmp_path / "mnist", y=np.array([1, 11, 2], np.uint8))
    with pytest.raises(DataError, match="mnist: label 11 of sample 1 is outside 0..9"):
        load("mnist", root=tmp_path)


def cifar10(folder):
    image = np.arange(3072, dtype=np.int64).astype(np.uint8)
    for number, name in enumerate([*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]):
        write(folder / name, bytes([number]) + image.tobytes() + bytes([9]) + image[::-1].tobytes())


def test_cifar_10_is_read_from_its_binary_version(tmp_path):
    cifar10(tmp_path / "cifar-10-batches-bin")
    made = load("cifar10", root=tmp_path)
    assert made.y.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9, 5, 9]
    assert int(made.test.sum()) == 2 and made.test[-2:].all()
    # records are channel by channel, row by row: red of row 1, column 2 is byte 34
    assert made.x.shape == (12, 3, 32, 32) and made.x[0, 0, 1, 2] == 34 and made.x[0, 1, 0, 3] == (1024 + 3) % 256


def test_cifar_records_that_are_cut_short_are_named(tmp_path):
    cifar10(tmp_path / "cifar10")
    write(tmp_path / "cifar10/data_batch_3.bin", b"x" * 3074)
    with pytest.raises(DataError, match="data_batch_3.bin has 3,074 bytes, which are no whole records of 3073"):
        load("cifar10", root=tmp_path)


@pytest.mark.parametrize(("name", "pickled"), [("cifar10", "cifar-10-batches-py"), ("cifar100", "cifar-100-python")])
def test_the_pickled_editions_of_cifar_are_refused(tmp_path, name, pickled):
    (tmp_path / pickled).mkdir()
    with pytest.raises(DataError, match=f"{pickled} is not read: .*pickles.*binary version.*perfed data fetch {name}"):
        load(name, root=tmp_path)


def test_cifar_100_has_fine_and_coarse_labels(tmp_path):
    folder = tmp_path / "cifar-100-binary"
    for part in ("train", "test"):
        write(folder / f"{part}.bin", bytes([1, 4]) + bytes(3072) + bytes([0, 2]) + bytes(3072))
    write(folder / "fine_label_names.txt", b"a\nb\nc\nd\ne\n")
    write(folder / "coarse_label_names.txt", b"sea\nland\n")
    fine, coarse = load("cifar100", root=tmp_path), load("cifar100", root=tmp_path, labels="coarse")
    assert fine.y.tolist() == [4, 2, 4, 2] and fine.classes == ("a", "b", "c", "d", "e")
    assert coarse.y.tolist() == [1, 0, 1, 0] and coarse.classes == ("sea", "land")
    with pytest.raises(InputError, match="did you mean 'coarse'"):
        load("cifar100", root=tmp_path, labels="coarce")


def tiny(folder):
    write(folder / "wnids.txt", b"n02\nn01\n")
    write(folder / "words.txt", b"n01\tgoldfish, Carassius auratus\nn02\tbullfrog\nn03\tother\n")
    picture(folder / "train/n01/images/n01_0.JPEG", (10, 10, 10))
    picture(folder / "train/n02/images/n02_0.JPEG", 200, mode="L")  # some of the real ones are grey, too
    picture(folder / "val/images/val_0.JPEG", (50, 50, 50))
    picture(folder / "val/images/val_1.JPEG", (90, 90, 90))
    write(folder / "val/val_annotations.txt", b"val_0.JPEG\tn02\t0\t0\t3\t3\nval_1.JPEG\tn01\t0\t0\t3\t3\n")


def test_tiny_imagenet_takes_its_test_part_from_the_official_validation_labels(tmp_path):
    tiny(tmp_path / "tiny-imagenet-200")
    made = load("tiny_imagenet", root=tmp_path)
    assert made.classes == ("goldfish", "bullfrog")
    assert made.y.tolist() == [0, 1, 1, 0] and made.test.tolist() == [False, False, True, True]
    assert made.x.shape == (4, 3, 4, 4) and made.x[:, 0, 0, 0].tolist() == [10, 200, 50, 90]


def test_a_validation_line_without_a_class_is_named(tmp_path):
    tiny(tmp_path / "tiny-imagenet-200")
    write(tmp_path / "tiny-imagenet-200/val/val_annotations.txt", b"val_0.JPEG\tn02\nval_1.JPEG\tn09\n")
    with pytest.raises(DataError, match="val_annotations.txt: line 2 does not name"):
        load("tiny_imagenet", root=tmp_path)


def test_a_missing_or_corrupt_picture_is_named_and_skipped_only_if_asked(tmp_path, caplog):
    tiny(tmp_path / "tiny-imagenet-200")
    bad = tmp_path / "tiny-imagenet-200/train/n01/images/n01_0.JPEG"
    bad.write_bytes(b"\xff\xd8 broken")
    with pytest.raises(DataError, match="n01_0.JPEG is no readable picture.*skip_corrupt=true"):
        load("tiny_imagenet", root=tmp_path)
    made = load("tiny_imagenet", root=tmp_path, skip_corrupt=True)
    assert made.y.tolist() == [1, 1, 0] and made.test.tolist() == [False, True, True]
    assert "left out 1 corrupt pictures" in caplog.text and "n01_0.JPEG" in caplog.text


def test_a_picture_cut_short_counts_as_corrupt(tmp_path):
    tiny(tmp_path / "tiny-imagenet-200")
    bad = tmp_path / "tiny-imagenet-200/val/images/val_1.JPEG"
    Image.effect_noise((64, 64), 90).convert("RGB").resize((4, 4)).save(bad)
    bad.write_bytes(bad.read_bytes()[:-30])
    with pytest.raises(DataError, match="val_1.JPEG is no readable picture"):
        load("tiny_imagenet", root=tmp_path)


def domains(root, names, labels=("dog", "elephant")):
    for d, domain in enumerate(names):
        for c, label in enumerate(labels):
            picture(root / domain / label / "1.png", (10 * d + c,) * 3)


def test_folders_by_domain_give_groups(tmp_path):
    domains(tmp_path / "PACS/kfold", ("art_painting", "cartoon", "photo", "sketch"))
    made = load("pacs", root=tmp_path)
    assert made.groups == ("art_painting", "cartoon", "photo", "sketch") and made.classes[:2] == ("dog", "elephant")
    assert made.group.tolist() == [0, 0, 1, 1, 2, 2, 3, 3] and made.test is None
    assert sorted(made.x[:, 0, 0, 0].tolist()) == [0, 1, 10, 11, 20, 21, 30, 31]
    assert torch.equal(made.x[:, 0, 0, 0], (10 * made.group + made.y).to(torch.uint8))


def test_the_first_pictures_of_a_domain_are_a_fair_sample_of_its_classes(tmp_path):
    for number in range(60):
        label = ("dog", "elephant", "giraffe")[number // 20]
        picture(tmp_path / f"pacs/photo/{label}/{number}.png", (number,) * 3)
    made = load("pacs", root=tmp_path, domains="photo")
    assert min(torch.bincount(made.y[:30], minlength=3).tolist()) >= 5
    assert torch.equal(made.y, made.x[:, 0, 0, 0].long() // 20)
    assert torch.equal(made.x, load("pacs", root=tmp_path, domains="photo").x)


def test_domains_can_be_chosen_and_the_others_need_not_be_there(tmp_path):
    domains(tmp_path / "PACS/kfold", ("cartoon", "sketch"))
    made = load("pacs", root=tmp_path, domains="sketch,cartoon")
    assert made.groups == ("cartoon", "sketch") and made.group.tolist() == [0, 0, 1, 1]
    with pytest.raises(InputError, match="no domain of pacs 'skech'; did you mean 'sketch'"):
        load("pacs", root=tmp_path, domains=["skech"])
    with pytest.raises(DataError, match="no files of pacs.*art_painting, cartoon, photo, sketch.*Google Drive"):
        load("pacs", root=tmp_path)


def test_pictures_of_different_sizes_are_refused_or_resized(tmp_path):
    root = tmp_path / "pacs"
    domains(root, ("art_painting", "cartoon", "photo", "sketch"))
    picture(root / "photo/dog/2.png", (0, 0, 0), size=(6, 5))
    with pytest.raises(DataError, match=r"2.png has 6×5 pixels, but .*1.png has 4×4; size=4 would resize them all"):
        load("pacs", root=tmp_path)
    assert load("pacs", root=tmp_path, size=3).x.shape == (9, 3, 3, 3)


def test_office_home_finds_its_classes_in_the_folders_and_resizes_as_in_the_paper(tmp_path):
    root = tmp_path / "OfficeHomeDataset_10072016"
    domains(root, ("Art", "Clipart", "Product", "Real World"), ("Alarm_Clock", "Bed"))
    made = load("office_home", root=tmp_path)
    assert made.groups == ("art", "clipart", "product", "real_world") and made.classes == ("Alarm_Clock", "Bed")
    assert made.x.shape == (8, 3, 224, 224)


def test_office_caltech_has_ten_classes(tmp_path):
    domains(tmp_path / "office_caltech_10", ("amazon", "caltech", "dslr", "webcam"), ("bike", "mug"))
    made = load("office_caltech", root=tmp_path, size=4)
    assert len(made.classes) == 10 and torch.bincount(made.y).tolist() == [0, 4, 0, 0, 0, 0, 0, 0, 4]


def test_domainnet_takes_ten_classes_and_the_official_test_lists(tmp_path):
    root = tmp_path / "domainnet"
    names = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")
    domains(root, names, ("axe", "bird", "zebra"))
    assert load("domainnet", root=tmp_path, size=4).test is None
    for name in names:
        write(root / f"{name}_test.txt", f"{name}/axe/1.png 5\n{name}/zebra/1.png 344\n".encode())
    made = load("domainnet", root=tmp_path, size=4)
    assert torch.bincount(made.y).tolist() == [6, 0, 0, 0, 0, 0, 0, 0, 0, 6] and torch.equal(made.test, made.y == 9)


def test_mnist_m_is_read_from_its_lists(tmp_path):
    root = tmp_path / "mnist_m"
    for part in ("train", "test"):
        picture(root / f"mnist_m_{part}/0.png", (1, 2, 3))
        picture(root / f"mnist_m_{part}/1.png", (4, 5, 6))
        write(root / f"mnist_m_{part}_labels.txt", b"1.png 3\n0.png 8\n")
    made = load("mnist_m", root=tmp_path)
    assert made.y.tolist() == [3, 8, 3, 8] and made.x[0, :, 0, 0].tolist() == [4, 5, 6]
    write(root / "mnist_m_test_labels.txt", b"1.png 3\n0.png\n")
    with pytest.raises(DataError, match="mnist_m_test_labels.txt: line 2"):
        load("mnist_m", root=tmp_path)


def test_the_pickled_edition_of_mnist_m_is_refused(tmp_path):
    write(tmp_path / "mnist_m/keras_mnistm.pkl.gz", b"")
    with pytest.raises(DataError, match="keras_mnistm.pkl.gz is not read: Python pickles"):
        load("mnist_m", root=tmp_path)


def test_svhn_puts_its_tens_to_zero(tmp_path):
    x = np.arange(32 * 32 * 3 * 2, dtype=np.int64).astype(np.uint8).reshape(32, 32, 3, 2)
    (tmp_path / "svhn").mkdir()
    for part in ("train", "test"):
        savemat(tmp_path / f"svhn/{part}_32x32.mat", {"X": x, "y": np.array([[10], [3]])})
    made = load("svhn", root=tmp_path)
    assert made.y.tolist() == [0, 3, 0, 3] and made.x.shape == (4, 3, 32, 32)
    assert made.x[1, 2, 5, 6] == x[5, 6, 2, 1]
    savemat(tmp_path / "svhn/test_32x32.mat", {"y": np.array([[1]])})
    with pytest.raises(DataError, match="test_32x32.mat has no variable 'X'"):
        load("svhn", root=tmp_path)
    write(tmp_path / "svhn/test_32x32.mat", b"<html>")
    with pytest.raises(DataError, match="test_32x32.mat is no readable MATLAB file"):
        load("svhn", root=tmp_path)


def test_the_matlab_files_of_digits_five_are_read(tmp_path):
    root = tmp_path / "Digit-Five"
    root.mkdir()
    colour, hot = np.full((2, 28, 28, 3), 7, np.uint8), np.eye(10)[[4, 9]]
    savemat(root / "mnistm_with_label.mat", {"train": colour, "label_train": hot, "test": colour, "label_test": hot})
    numbers = {"train_label": np.array([[1], [2]]), "test_label": np.array([[3], [0]])}
    savemat(root / "syn_number.mat", {"train_data": colour, "test_data": colour, **numbers})
    cells = np.empty((2, 2), dtype=object)
    for row in range(2):
        cells[row, 0], cells[row, 1] = np.full((2, 1, 28, 28), 0.5), np.array([[5], [6 + row]])
    savemat(root / "usps_28x28.mat", {"dataset": cells})
    assert load("mnist_m", root=tmp_path).y.tolist() == [4, 9, 4, 9]
    assert load("synth_digits", root=tmp_path).y.tolist() == [1, 2, 3, 0]
    usps = load("usps", root=tmp_path)
    assert usps.y.tolist() == [5, 6, 5, 7] and usps.x.shape == (4, 1, 28, 28) and usps.x.unique().tolist() == [128]


def test_usps_is_read_from_svmlight(tmp_path):
    dark = " ".join(f"{i}:-1" for i in range(1, 257))
    lines = f"10 {dark}\n1 1:1 2:0.5 256:-0.25\n".encode()
    for name in ("usps", "usps.t"):
        write(tmp_path / f"usps/{name}.bz2", bz2.compress(lines))
    made = load("usps", root=tmp_path)
    assert made.y.tolist() == [9, 0, 9, 0] and made.x.shape == (4, 1, 16, 16)
    assert made.x[0].unique().tolist() == [0]
    # (v + 1) · 127.5: 1 → 255, 0.5 → 191.25, 0 → 127.5 (to even: 128), -0.25 → 95.625
    assert made.x[1, 0, 0, :3].tolist() == [255, 191, 128] and made.x[1, 0, 15, 15] == 96
    write(tmp_path / "usps/usps.bz2", bz2.compress(b"1 what\n"))
    with pytest.raises(DataError, match="usps.bz2 is no svmlight file"):
        load("usps", root=tmp_path)


def amazon(root):
    for number, domain in enumerate(("books", "dvd", "electronics", "kitchen")):
        write(root / f"{domain}_train.svmlight", f"1 0:{number + 1} 4999:2\n-1 1:3\n".encode())
        write(root / f"{domain}_test.svmlight", b"-1 2:1\n")


def test_amazon_is_read_from_svmlight(tmp_path):
    amazon(tmp_path / "amazon")
    made = load("amazon", root=tmp_path)
    assert made.kind == "features" and made.x.shape == (12, 5000)
    assert made.y.tolist() == [1, 0, 0] * 4 and made.group.tolist() == sorted([0, 1, 2, 3] * 3)
    assert made.test.tolist() == [False, False, True] * 4
    assert made.x[3, 0] == 2 and made.x[3, 4999] == 2 and made.x[3].sum() == 4
    few = load("amazon", root=tmp_path, features=2, domains="kitchen,dvd")
    assert few.x.tolist() == [[2, 0], [0, 3], [0, 0], [4, 0], [0, 3], [0, 0]] and few.groups == ("dvd", "kitchen")


def test_amazon_is_read_from_sparse_archives(tmp_path):
    (tmp_path / "amazon").mkdir()
    np.savez(
        tmp_path / "amazon/amazon_reviews4.npz",
        data=np.array([5, 6, 7], np.uint8),
        indices=np.array([0, 2, 1], np.uint16),
        indptr=np.array([0, 2, 2, 3], np.int32),
        shape=np.array([3, 4]),
        y=np.array([1, 0, 1], np.uint8),
        domain=np.array([0, 1, 3], np.uint8),
        is_train=np.array([True, True, False]),
        domain_names=np.array(["books", "dvd", "electronics", "kitchen"]),
    )
    made = load("amazon", root=tmp_path)
    assert made.x.tolist() == [[5, 0, 6, 0], [0, 0, 0, 0], [0, 7, 0, 0]]
    assert made.y.tolist() == [1, 0, 1] and made.group.tolist() == [0, 1, 3]
    assert made.test.tolist() == [False, False, True]


def test_amazon_is_read_from_the_transposed_archive(tmp_path):
    (tmp_path / "amazon").mkdir()
    np.savez(
        tmp_path / "amazon/amazon.npz",
        xx_data=np.array([[5.0], [6.0], [7.0]]),
        xx_row=np.array([[0], [1], [2]]),  # words
        xx_col=np.array([[0], [3], [1]]),  # reviews
        xx_shape=np.array([[3, 4]]),
        yy=np.array([[1], [-1], [-1], [1]]),
        offset=np.array([[0], [1], [2], [3], [4]]),
    )
    made = load("amazon", root=tmp_path, features=2)
    assert made.x.tolist() == [[5, 0], [0, 0], [0, 0], [0, 6]]
    assert made.y.tolist() == [1, 0, 0, 1] and made.group.tolist() == [0, 1, 2, 3] and made.test is None


def news(path, rows):
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
    write(path, out.getvalue().encode())


def test_ag_news_keeps_its_texts(tmp_path):
    news(tmp_path / "ag_news/train.csv", [[3, 'Title "A"', "One, two\nthree"], [1, "B", "Four"]])
    news(tmp_path / "ag_news/test.csv", [[4, "C", "Five"]])
    made = load("ag_news", root=tmp_path)
    assert made.kind == "tokens" and made.x.shape == (3, 0) and made.test.tolist() == [False, False, True]
    assert made.y.tolist() == [2, 0, 3]
    assert made.texts == ('Title "A" . One, two\nthree', "B . Four", "C . Five")
    news(tmp_path / "ag_news/test.csv", [[4, "C", "Five"], [5, "D", "Six"]])
    with pytest.raises(DataError, match="test.csv: row 2 is not class,title,description with a number from 1 to 4"):
        load("ag_news", root=tmp_path)


def test_ag_news_with_a_header_counts_from_zero(tmp_path):
    for part in ("train_subset", "test"):
        write(tmp_path / f"ag_news/{part}.csv.gz", gzip.compress(b'label,text\n3,"a . b"\n0,c\n'))
    made = load("ag_news", root=tmp_path)
    assert made.y.tolist() == [3, 0, 3, 0] and made.texts[:2] == ("a . b", "c")


CHANNELS = [f"{sensor}_{axis}" for sensor in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"]


def har(root, windows=2):
    for part, subjects in (("train", [1, 30]), ("test", [2, 2])):
        for number, channel in enumerate(CHANNELS):
            values = np.arange(windows * 128).reshape(windows, 128) + 1000 * number
            lines = "\n".join("  " + " ".join(f"{v:.7e}" for v in row) for row in values)
            write(root / part / "Inertial Signals" / f"{channel}_{part}.txt", lines.encode() + b"\n")
        write(root / part / f"y_{part}.txt", b"5\n1\n")
        write(root / part / f"subject_{part}.txt", "".join(f"{s}\n" for s in subjects).encode())
    names = ["WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING"]
    write(root / "activity_labels.txt", "".join(f"{i} {n}\n" for i, n in enumerate(names, 1)).encode())


def test_har_is_read_from_the_published_text_files(tmp_path):
    har(tmp_path / "UCI HAR Dataset")
    made = load("har", root=tmp_path)
    assert made.kind == "signal" and made.x.shape == (4, 9, 1, 128) and made.x.dtype == torch.float32
    assert made.x[1, 3, 0, 5] == 3000 + 128 + 5
    assert made.y.tolist() == [4, 0, 4, 0] and made.classes[4] == "STANDING"
    assert made.group.tolist() == [0, 29, 1, 1] and made.groups[29] == "subject 30"
    assert made.test.tolist() == [False, False, True, True]


def test_har_can_be_mixed_as_its_authors_code_does(tmp_path):
    har(tmp_path / "UCI HAR Dataset")
    made = load("har", root=tmp_path, mixed=True)
    assert made.x.shape == (4, 9, 1, 128)
    # number 3 · 128 + 5 = 389 of a window that is written down step by step, nine channels each: step 43, channel 2
    assert made.x[1, 3, 0, 5] == 2000 + 128 + 43
    assert made.x[0, 0, 0, :10].tolist() == [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 1]
    with pytest.raises(InputError, match="mixed must be true or false"):
        load("har", root=tmp_path, mixed="yes")


def test_har_files_that_do_not_fit_are_named(tmp_path):
    root = tmp_path / "UCI HAR Dataset"
    har(root)
    write(root / "test/subject_test.txt", b"2\n")
    with pytest.raises(DataError, match="test: 2 windows, 2 labels and 1 subjects"):
        load("har", root=tmp_path)
    write(root / "train/Inertial Signals/body_gyro_y_train.txt", b"1 2 x\n")
    with pytest.raises(DataError, match="body_gyro_y_train.txt is no table of numbers"):
        load("har", root=tmp_path)


def test_har_is_read_from_its_compact_archive(tmp_path):
    (tmp_path / "har").mkdir()
    x = np.arange(2 * 128 * 9).reshape(2, 128, 9).astype(np.float16)
    y, subject, train = np.array([5, 0], np.uint8), np.array([3, 1], np.uint8), np.array([True, False])
    np.savez(tmp_path / "har/har.npz", x=x, y=y, subject=subject, is_train_subject=train)
    made = load("har", root=tmp_path)
    assert made.x.shape == (2, 9, 1, 128) and made.x[1, 2, 0, 5] == float(x[1, 5, 2])
    assert torch.equal(load("har", root=tmp_path, mixed=True).x.flatten(), torch.from_numpy(x).float().flatten())
    assert made.group.tolist() == [2, 0] and made.test.tolist() == [False, True]


def test_pictures_as_jpeg_bytes_are_read(tmp_path):
    (tmp_path / "pacs").mkdir()
    jpeg, offsets = jpegs([10, 100, 200])
    fields = {
        "jpeg": jpeg,
        "offsets": offsets,
        "y": np.array([1, 0, 1], np.uint8),
        "domain": np.array([0, 3, 3], np.uint8),
        "label_names": np.array(["dog", "elephant"]),
        "domain_names": np.array(["art_painting", "cartoon", "photo", "sketch"]),
    }
    np.savez(tmp_path / "pacs/pacs_64.npz", **fields)
    made = load("pacs", root=tmp_path)
    assert made.x.shape == (3, 3, 8, 8) and made.group.tolist() == [0, 3, 3]
    assert dict(zip(made.x[:, 0, 0, 0].tolist(), made.y.tolist(), strict=True)) == {10: 1, 100: 0, 200: 1}
    assert sorted(load("pacs", root=tmp_path, domains="sketch").y.tolist()) == [0, 1]
    np.savez(tmp_path / "pacs/pacs_64.npz", **{**fields, "offsets": offsets + 9})
    with pytest.raises(DataError, match="pacs_64.npz: the offsets do not cut"):
        load("pacs", root=tmp_path)
    jpeg = jpeg.copy()
    jpeg[offsets[1] : offsets[1] + 4] = 0
    np.savez(tmp_path / "pacs/pacs_64.npz", **{**fields, "jpeg": jpeg})
    with pytest.raises(DataError, match="pacs_64.npz: picture 1 is no readable picture"):
        load("pacs", root=tmp_path)
    assert load("pacs", root=tmp_path, skip_corrupt=True).y.tolist() == [1, 1]


def test_tiny_imagenet_as_jpeg_bytes_is_read(tmp_path):
    (tmp_path / "tiny_imagenet").mkdir()
    (jpeg, offsets), (val, starts) = jpegs([1, 2]), jpegs([3])
    np.savez(
        tmp_path / "tiny_imagenet/tiny_imagenet_subset.npz",
        jpeg_train=jpeg,
        offsets_train=offsets,
        y_train=np.array([1, 0]),
        jpeg_val=val,
        offsets_val=starts,
        y_val=np.array([1]),
        label_names=np.array(["fish", "frog"]),
    )
    made = load("tiny_imagenet", root=tmp_path)
    assert made.y.tolist() == [1, 0, 1] and made.test.tolist() == [False, False, True]
    assert made.classes == ("fish", "frog")


def test_archives_with_python_objects_are_not_unpickled(tmp_path):
    (tmp_path / "mnist").mkdir()
    objects = np.array([{"a": 1}, None], dtype=object)
    np.savez(tmp_path / "mnist/mnist.npz", x_train=objects, y_train=objects)
    with pytest.raises(DataError, match="mnist.npz: array 'x_train' cannot be read .*never unpickled"):
        load("mnist", root=tmp_path)


def test_archives_without_the_arrays_or_damaged_are_named(tmp_path):
    (tmp_path / "mnist").mkdir()
    path = tmp_path / "mnist/mnist.npz"
    np.savez(path, x_train=MNIST_X, y_train=MNIST_Y, x_test=MNIST_X)
    with pytest.raises(DataError, match="mnist.npz has no array 'y_test'; it has x_train, y_train, x_test"):
        load("mnist", root=tmp_path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match="mnist.npz is no readable npz file"):
        load("mnist", root=tmp_path)
    np.savez(path, x_train=MNIST_X.astype(float), y_train=MNIST_Y, x_test=MNIST_X, y_test=MNIST_Y)
    with pytest.raises(DataError, match="'x_train' is float64 with 3 axes, but images are uint8"):
        load("mnist", root=tmp_path)
