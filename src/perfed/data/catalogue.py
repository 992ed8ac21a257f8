"""Every data set that perfed knows by name: sizes, licence, files, and where users get them."""

from __future__ import annotations

from . import archives, cifar, embedded, folders, har, heart, idx, tables
from .domain_sets import DOMAIN_SETS
from .download import RemoteFile
from .entry import Entry, Layout

DIGITS = tuple("0123456789")
IDX = tuple(f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))
DOTTED = tuple(f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images.idx3", "labels.idx1"))
CIFAR10 = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
CIFAR100 = ("train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt")
REVIEWS = tuple(
    f"{domain}_{part}.svmlight" for domain in ("books", "dvd", "electronics", "kitchen") for part in ("train", "test")
)
TINY = ("wnids.txt", "words.txt", "train", "val/val_annotations.txt")
UCI = ("train", "test", "activity_labels.txt")
PICKLED = "Python pickles can run any code when they are read, so perfed does not read them"

_SETS: dict[str, Entry] = {
    "ag_news": Entry(
        name="ag_news",
        title="AG News",
        kind="tokens",
        train=120_000,
        test=7_600,
        classes=4,
        shape=(200,),
        labels=("World", "Sports", "Business", "Sci/Tech"),
        licence="non-commercial research",
        source="http://groups.di.unipi.it/~gulli/AG_corpus_of_news_articles.html",
        folders=("ag_news", "ag_news_csv"),
        layouts=(
            Layout(("train.csv", "test.csv"), tables.ag_news, "the published csv files"),
            Layout(("train_subset.csv", "test.csv"), tables.ag_news, "9,999 training texts, all test texts", (9_999, 7_600)),
        ),
        remotes=tuple(
            RemoteFile(
                url=f"https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/{part}.csv",
                md5=md5,
            )
            for part, md5 in (
                ("train", "b1a00f826fdfbd249f79597b59e1dc12"),
                ("test", "d52ea96a97a2d943681189a97654912d"),
            )
        ),
        terms="the AG corpus may be used for non-commercial research only",
    ),
    "amazon": Entry(
        name="amazon",
        title="Amazon Review, 4 domains",
        kind="features",
        train=8_000,
        test=19_677,
        classes=2,
        shape=(5000,),
        labels=("negative", "positive"),
        groups=("books", "dvd", "electronics", "kitchen"),
        licence="research (Blitzer et al. 2007)",
        source="https://www.cs.jhu.edu/~mdredze/datasets/sentiment/",
        folders=("amazon", "amazon_reviews4"),
        layouts=(
            Layout(REVIEWS, tables.amazon, "svmlight files with the 5,000 commonest words"),
            Layout(("amazon_reviews4.npz",), archives.amazon, "the svmlight files as one npz"),
            Layout(("amazon.npz",), archives.amazon_mdan, "npz with 30,000 words, no official test part"),
        ),
        remotes=tuple(
            RemoteFile(
                url="https://raw.githubusercontent.com/GRAAL-Research/domain_adversarial_neural_network/master/data/" + name
            )
            for name in REVIEWS
        ),
        options=("domains", "features"),
    ),
    "cifar10": Entry(
        name="cifar10",
        title="CIFAR-10",
        kind="image",
        train=50_000,
        test=10_000,
        classes=10,
        shape=(3, 32, 32),
        labels=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        licence="none stated",
        source="https://www.cs.toronto.edu/~kriz/cifar.html",
        folders=("cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin"),
        layouts=(
            Layout(CIFAR10, cifar.read10, "the published binary version"),
            Layout(("cifar10_subset.npz",), archives.arrays, "12,000 + 3,000 images, every class alike", (12_000, 3_000)),
        ),
        remotes=(
            RemoteFile(
                url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                md5="c32a1d4ab5d03f1284b67883e8d87530",
                unpack=True,
            ),
        ),
        refused={"cifar-10-batches-py": cifar.PICKLED, "cifar-10-python.tar.gz": cifar.PICKLED},
        options=("size",),
    ),
    "cifar100": Entry(
        name="cifar100",
        title="CIFAR-100",
        kind="image",
        train=50_000,
        test=10_000,
        classes=100,
        shape=(3, 32, 32),
        licence="none stated",
        source="https://www.cs.toronto.edu/~kriz/cifar.html",
        folders=("cifar100", "cifar100/cifar-100-binary", "cifar-100-binary"),
        layouts=(Layout(CIFAR100, cifar.read100, "the published binary version"),),
        remotes=(
            RemoteFile(
                url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
                md5="03b5dce01913d631647c71ecec9e9cb8",
                unpack=True,
            ),
        ),
        refused={"cifar-100-python": cifar.PICKLED, "cifar-100-python.tar.gz": cifar.PICKLED},
        options=("labels", "size"),
    ),
    "digits": Entry(
        name="digits",
        title="Handwritten digits (embedded)",
        kind="image",
        train=1_797,
        classes=10,
        shape=(1, 8, 8),
        labels=DIGITS,
        licence="CC BY 4.0",
        source="https://archive.ics.uci.edu/dataset/80",
        layouts=(Layout((), embedded.digits, "embedded, 1×8×8"),),
        options=("size",),
    ),
    "digits_domains": Entry(
        name="digits_domains",
        title="Handwritten digits in five domains (embedded)",
        kind="image",
        train=1_797,
        classes=10,
        shape=(1, 16, 16),
        labels=DIGITS,
        groups=tuple(embedded.RENDER),
        licence="CC BY 4.0",
        source="https://archive.ics.uci.edu/dataset/80",
        layouts=(Layout((), embedded.digits_domains, "embedded, 1×16×16"),),
        options=("domains", "size"),
    ),
    "fashion_mnist": Entry(
        name="fashion_mnist",
        title="Fashion-MNIST",
        kind="image",
        train=60_000,
        test=10_000,
        classes=10,
        shape=(1, 28, 28),
        labels=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        licence="MIT",
        source="https://github.com/zalandoresearch/fashion-mnist",
        folders=("fashion_mnist", "fashion-mnist", "FashionMNIST/raw", "dataset-fashion-mnist"),
        layouts=(
            Layout(IDX, idx.read, "the published IDX files"),
            Layout(("fashion_mnist.npz",), archives.arrays, "the IDX files as one npz"),
        ),
        remotes=tuple(
            RemoteFile(url=f"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}.gz", md5=md5)
            for name, md5 in zip(
                IDX,
                (
                    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    "25c81989df183df01b3e8a0aad5dffbe",
                    "bef4ecab320f06d8554ea6380940ec79",
                    "bb300cfdad3c16e7a12a480ee83cd310",
                ),
                strict=True,
            )
        ),
        options=("size",),
    ),
    "har": Entry(
        name="har",
        title="Human activity recognition, 30 subjects",
        kind="signal",
        train=7_352,
        test=2_947,
        classes=6,
        shape=(9, 1, 128),
        labels=("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING"),
        groups=tuple(f"subject {number}" for number in range(1, har.SUBJECTS + 1)),
        licence="CC BY 4.0",
        source="https://archive.ics.uci.edu/dataset/240",
        folders=("har", "har/UCI HAR Dataset", "UCI HAR Dataset"),
        layouts=(
            Layout(UCI, har.published, "the published text files"),
            Layout(("har.npz",), har.compact, "10,411 windows of the same recordings, float16"),
        ),
        remotes=(
            RemoteFile(
                url="https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip",
                file="uci_har.zip",
                unpack=True,
            ),
        ),
        options=("mixed",),
        overlap="neighbouring windows share half of their time",
    ),
    "heart_disease": Entry(
        name="heart_disease",
        title="Heart disease in four hospitals",
        kind="features",
        train=486,
        test=254,
        classes=2,
        shape=(13,),
        labels=("healthy", "ill"),
        groups=heart.HOSPITALS,
        licence="CC BY 4.0",
        source="https://archive.ics.uci.edu/dataset/45",
        folders=("heart_disease", "heart-disease", "fed_heart_disease/heart_disease_dataset"),
        layouts=(Layout(tuple(f"processed.{name}.data" for name in heart.HOSPITALS), heart.read, "the four processed files"),),
        remotes=tuple(
            RemoteFile(
                url=f"https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/processed.{name}.data",
                md5=md5,
            )
            for name, md5 in zip(
                heart.HOSPITALS,
                (
                    "2d91a8ff69cfd9616aa47b59d6f843db",
                    "22e96bee155b5973568101c93b3705f6",
                    "9a87f7577310b3917730d06ba9349e20",
                    "4249d03ca7711e84f4444768c9426170",
                ),
                strict=True,
            )
        ),
        options=("scale", "standardise"),
    ),
    "mnist": Entry(
        name="mnist",
        title="MNIST",
        kind="image",
        train=60_000,
        test=10_000,
        classes=10,
        shape=(1, 28, 28),
        labels=DIGITS,
        licence="CC BY-SA 3.0",
        source="http://yann.lecun.com/exdb/mnist/",
        folders=("mnist", "MNIST/raw"),
        layouts=(
            Layout(IDX, idx.read, "the published IDX files"),
            Layout(DOTTED, idx.read, "the published IDX files"),
            Layout(("mnist.npz",), archives.arrays, "the IDX files as one npz"),
        ),
        remotes=tuple(
            RemoteFile(url=f"https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz", md5=md5)
            for name, md5 in zip(
                IDX,
                (
                    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    "d53e105ee54ea40749a09fcbcd1e9432",
                    "9fb629c4189551a2d022fa330f9573f3",
                    "ec29112dd5afa0611ce80d1b7f02629c",
                ),
                strict=True,
            )
        ),
        options=("size",),
    ),
    "tiny_imagenet": Entry(
        name="tiny_imagenet",
        title="Tiny-ImageNet",
        kind="image",
        train=100_000,
        test=10_000,
        classes=200,
        shape=(3, 64, 64),
        licence="ImageNet terms: non-commercial research",
        source="http://cs231n.stanford.edu/",
        folders=("tiny_imagenet", "tiny_imagenet/tiny-imagenet-200", "tiny-imagenet-200"),
        layouts=(
            Layout(TINY, folders.tiny_imagenet, "the published folders"),
            Layout(
                ("tiny_imagenet_subset.npz",),
                archives.tiny_imagenet,
                "10,000 + 2,000 pictures, every class alike",
                (10_000, 2_000),
            ),
        ),
        remotes=(
            RemoteFile(
                url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
                md5="90528d7ca1a48142e341f4ef8d21d0de",
                unpack=True,
            ),
        ),
        terms="ImageNet's pictures may be used for non-commercial research only (https://www.image-net.org/download)",
        options=("size", "skip_corrupt"),
    ),
}
CATALOGUE: dict[str, Entry] = dict(sorted((_SETS | DOMAIN_SETS).items()))
