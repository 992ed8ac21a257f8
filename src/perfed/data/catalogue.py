"""Every data set that perfed knows by name: sizes, licence, files, and where users get them."""

from __future__ import annotations

from . import archives, cifar, embedded, folders, har, idx, matlab, tables
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
VISDA = "http://csr.bu.edu/ftp/visda/2019/multi-source/"
BIRD_TO_ZEBRA = (
    *("bird", "feather", "headphones", "ice_cream", "teapot"),
    *("tiger", "whale", "windmill", "wine_glass", "zebra"),
)
DOMAINNET = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")
PICKLED = "Python pickles can run any code when they are read, so perfed does not read them"
FIVE = (
    "get Digit-Five.zip, linked from the page of the moment-matching paper, http://ai.bu.edu/M3SDA/, "
    "and unpack it into a folder Digit-Five"
)

CATALOGUE: dict[str, Entry] = {
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
    "digits_five": Entry(
        name="digits_five",
        title="Digits-Five",
        kind="image",
        train=678_949,
        test=56_593,
        classes=10,
        shape=(3, 32, 32),
        labels=DIGITS,
        groups=("mnist", "mnist_m", "svhn", "synth_digits", "usps", "optdigits"),
        licence="that of each domain",
        source="http://ai.bu.edu/M3SDA/",
        options=("domains", "size", "skip_corrupt"),
        size=32,
        parts=("mnist", "mnist_m", "svhn", "synth_digits", "usps"),
        terms="SVHN may be used for non-commercial research only",
    ),
    "domainnet": Entry(
        name="domainnet",
        title="DomainNet, 10 classes",
        kind="image",
        train=0,  # the size of this choice of classes is not published
        classes=10,
        shape=(3, 256, 256),
        labels=BIRD_TO_ZEBRA,
        groups=DOMAINNET,
        licence="fair use, research",
        source="http://ai.bu.edu/M3SDA/",
        folders=("domainnet", "DomainNet", "domain_net"),
        layouts=(Layout(DOMAINNET, folders.domains, "the published folders, 10 of 345 classes"),),
        remotes=(
            *(RemoteFile(url=f"{VISDA}domainnet/txt/{domain}_test.txt") for domain in DOMAINNET),
            *(
                RemoteFile(
                    url=f"{VISDA}{'groundtruth/' if domain in ('clipart', 'painting') else ''}{domain}.zip",
                    unpack=True,
                    only=BIRD_TO_ZEBRA,
                )
                for domain in DOMAINNET
            ),
        ),
        terms="DomainNet's pictures belong to others and may be used for research only; the download is about 17 GB",
        options=("domains", "size", "skip_corrupt"),
        size=256,
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
    "mnist_m": Entry(
        name="mnist_m",
        title="MNIST-M",
        kind="image",
        train=59_001,
        test=9_001,
        classes=10,
        shape=(3, 32, 32),
        labels=DIGITS,
        licence="none stated",
        source="http://yaroslav.ganin.net/",
        folders=("mnist_m", "mnist_m/mnist_m", "digits5", "Digit-Five", "digits_five"),
        layouts=(
            Layout(("mnist_m_train_labels.txt", "mnist_m_test_labels.txt"), folders.mnist_m, "the published pictures"),
            Layout(("mnistm_with_label.mat",), matlab.five, "the file of Digits-Five, 55,000 + 10,000 images"),
            Layout(("mnist_m.npz",), archives.arrays, "4,000 + 1,000 images, every class alike", (4_000, 1_000)),
        ),
        by_hand=f"get mnist_m.tar.gz from http://yaroslav.ganin.net/ and unpack it into a folder mnist_m, or {FIVE}",
        refused={"keras_mnistm.pkl": PICKLED, "keras_mnistm.pkl.gz": PICKLED},
        options=("size", "skip_corrupt"),
    ),
    "office_caltech": Entry(
        name="office_caltech",
        title="Office-Caltech-10",
        kind="image",
        train=2_533,
        classes=10,
        shape=(3, 256, 256),
        labels=(
            *("back_pack", "bike", "calculator", "headphones", "keyboard"),
            *("laptop_computer", "monitor", "mouse", "mug", "projector"),
        ),
        groups=("amazon", "caltech", "dslr", "webcam"),
        licence="research",
        source="https://github.com/med-air/FedBN",
        folders=("office_caltech", "office_caltech/office_caltech_10", "office_caltech_10", "OfficeCaltech10"),
        layouts=(
            Layout(("amazon", "caltech", "dslr", "webcam"), folders.domains, "the published folders"),
            Layout(("amazon", "caltech10", "dslr", "webcam"), folders.domains, "the published folders"),
        ),
        remotes=(
            RemoteFile(
                url="https://huggingface.co/datasets/Jemary/FedBN_Dataset/resolve/main/office_caltech_10_dataset.zip",
                unpack=True,
            ),
        ),
        options=("domains", "size", "skip_corrupt"),
        size=256,
    ),
    "office_home": Entry(
        name="office_home",
        title="Office-Home",
        kind="image",
        train=15_588,
        classes=65,
        shape=(3, 224, 224),
        groups=("art", "clipart", "product", "real_world"),
        licence="non-commercial research",
        source="https://www.hemanthdv.org/officeHomeDataset.html",
        folders=(
            *("office_home", "office_home/OfficeHomeDataset_10072016"),
            *("OfficeHomeDataset_10072016", "OfficeHome", "officehome"),
        ),
        layouts=(
            Layout(("Art", "Clipart", "Product", "Real World"), folders.domains, "the published folders"),
            Layout(("Art", "Clipart", "Product", "RealWorld"), folders.domains, "the published folders"),
            Layout(("art", "clipart", "product", "real_world"), folders.domains, "the published folders"),
        ),
        by_hand="accept the terms at https://www.hemanthdv.org/officeHomeDataset.html, then download and unpack "
        "OfficeHomeDataset_10072016.zip",
        options=("domains", "size", "skip_corrupt"),
        size=224,
    ),
    "optdigits": Entry(
        name="optdigits",
        title="Optical digits",
        kind="image",
        train=1_797,
        classes=10,
        shape=(1, 8, 8),
        labels=DIGITS,
        licence="CC BY 4.0",
        source="https://archive.ics.uci.edu/dataset/80",
        folders=("optdigits", "digits5"),
        layouts=(
            Layout(("optdigits.npz",), archives.optdigits, "npz"),
            Layout((), embedded.digits, "embedded, 1×8×8"),
        ),
        options=("size",),
    ),
    "pacs": Entry(
        name="pacs",
        title="PACS",
        kind="image",
        train=9_991,
        classes=7,
        shape=(3, 227, 227),
        labels=("dog", "elephant", "giraffe", "guitar", "horse", "house", "person"),
        groups=("art_painting", "cartoon", "photo", "sketch"),
        licence="none stated; research",
        source="https://sketchx.eecs.qmul.ac.uk/downloads/",
        folders=("pacs", "pacs/kfold", "PACS", "PACS/kfold"),
        layouts=(
            Layout(("art_painting", "cartoon", "photo", "sketch"), folders.domains, "the published folders, 227×227"),
            Layout(("pacs_64.npz",), archives.pacs, "all pictures at 64×64, JPEG", shape=(3, 64, 64)),
        ),
        by_hand="its authors share it on Google Drive, from https://sketchx.eecs.qmul.ac.uk/downloads/; unpack it so "
        "that the folders art_painting, cartoon, photo and sketch lie in a folder pacs",
        options=("domains", "size", "skip_corrupt"),
    ),
    "svhn": Entry(
        name="svhn",
        title="SVHN, cropped digits",
        kind="image",
        train=73_257,
        test=26_032,
        classes=10,
        shape=(3, 32, 32),
        labels=DIGITS,
        licence="non-commercial research",
        source="http://ufldl.stanford.edu/housenumbers/",
        folders=("svhn", "SVHN", "Digit-Five", "digits_five"),
        layouts=(
            Layout(("train_32x32.mat", "test_32x32.mat"), matlab.read, "the published MATLAB files"),
            Layout(("svhn_train_32x32.mat", "svhn_test_32x32.mat"), matlab.read, "the files of Digits-Five"),
        ),
        remotes=(
            RemoteFile(url="http://ufldl.stanford.edu/housenumbers/train_32x32.mat", md5="e26dedcc434d2e4c54c9b2d4a06d8373"),
            RemoteFile(url="http://ufldl.stanford.edu/housenumbers/test_32x32.mat", md5="eb5a983be6a315427106f1b164d9cef3"),
        ),
        terms="SVHN may be used for non-commercial research only",
        options=("size",),
    ),
    "synth_digits": Entry(
        name="synth_digits",
        title="SynthDigits",
        kind="image",
        train=479_400,
        test=9_553,
        classes=10,
        shape=(3, 32, 32),
        labels=DIGITS,
        licence="none stated",
        source="http://yaroslav.ganin.net/",
        folders=("synth_digits", "SynthDigits", "Digit-Five", "digits_five"),
        layouts=(
            Layout(("synth_train_32x32.mat", "synth_test_32x32.mat"), matlab.read, "the published MATLAB files"),
            Layout(("syn_number.mat",), matlab.five, "the file of Digits-Five, 25,000 + 9,000 images"),
        ),
        by_hand=f"get SynthDigits.zip from http://yaroslav.ganin.net/ and unpack it into a folder synth_digits, or {FIVE}",
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
    "usps": Entry(
        name="usps",
        title="USPS",
        kind="image",
        train=7_291,
        test=2_007,
        classes=10,
        shape=(1, 16, 16),
        labels=DIGITS,
        licence="none stated",
        source="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html",
        folders=("usps", "USPS", "digits5", "Digit-Five", "digits_five"),
        layouts=(
            Layout(("usps", "usps.t"), tables.usps, "the published svmlight files"),
            Layout(("usps_28x28.mat",), matlab.usps, "the file of Digits-Five, 28×28, 7,438 + 1,860 images", shape=(1, 28, 28)),
            Layout(("usps.npz",), archives.arrays, "all images as one npz"),
        ),
        remotes=tuple(
            RemoteFile(url=f"https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/{name}.bz2", md5=md5)
            for name, md5 in (
                ("usps", "ec16c51db3855ca6c91edd34d0e9b197"),
                ("usps.t", "8ea070ee2aca1ac39742fdd1ef5ed118"),
            )
        ),
        options=("size",),
    ),
}
