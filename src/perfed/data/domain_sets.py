"""Data sets that have domains, or are one domain of such a set: digits, objects and drawings from several sources."""

from __future__ import annotations

from . import archives, embedded, folders, matlab, tables
from .download import RemoteFile
from .entry import Entry, Layout

DIGITS = tuple("0123456789")
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

DOMAIN_SETS: dict[str, Entry] = {
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
