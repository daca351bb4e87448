"""The data sets leakscope knows: what each is, where it lies on disk, where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from leakscope.data.cifar import read_cifar10, read_cifar100
from leakscope.data.dataset import Expected, Samples
from leakscope.data.femnist import read_leaf, read_parquet, read_sqlite
from leakscope.data.medmnist import read_medmnist, upsampled
from leakscope.data.npz import read_npz
from leakscope.data.photos import PHOTOS
from leakscope.data.tiny_imagenet import read_tiny_imagenet
from leakscope.errors import InputError, unknown
from leakscope.types import Normalisation


@dataclass(frozen=True)
class Form:
    """One way a data set lies on disk: where under the data root (a glob pattern), and how it is read."""

    place: str
    """A path with * and ?, from the data root or from /."""
    read: Callable[[Sequence[Path]], Samples]


@dataclass(frozen=True, kw_only=True)
class Download:
    """An official address with its published checksum, and what becomes of the file."""

    url: str
    checksum: str
    """`md5:...` or `sha256:...`."""
    makes: str
    """The file or folder under the data root that the download ends as."""
    kind: Literal["file", "tar", "zip", "sqlite"]
    """How the download is made into that."""


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """One entry of `leakscope list datasets`."""

    description: str
    model: str
    """The victim it is audited with by default."""
    forms: tuple[Form, ...] = ()
    """In order of preference: official forms first, then `<name>.npz`."""
    expected: Expected = field(default_factory=Expected)
    normalisation: Normalisation | None = None
    """Without one: ImageNet's for colour, 0.5 and 0.25 for grey, which tell nothing about the images."""
    licence: str = "not stated"
    homepage: str = ""
    how: str = "put its files under the data root"
    """How to get it."""
    download: Download | None = None
    stand_ins: tuple[str, ...] = ()
    """Data sets that may be used instead, but only by their own name."""
    for_priors: bool = False
    """A prior may learn from all of it, with no seed's client left out."""
    auxiliary: str = ""
    """The public data set of the same kind of images, for priors."""
    reported: tuple[str, ...] = ()
    """The writers whom reports are made on; data sets without a list take seeds."""


# Mean and deviation per channel. FEMNIST and CIFAR-100: as in the paper's baselines. CIFAR-10 and
# Tiny-ImageNet: of their training sets. photos: of its 540 views. OrganAMNIST: MedMNIST's own.
CIFAR100_SCALE = Normalisation((0.5071, 0.4866, 0.4409), (0.2673, 0.2564, 0.2762))
CIFAR10_SCALE = Normalisation((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
TINY_SCALE = Normalisation((0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821))
PHOTOS_SCALE = Normalisation((0.4871, 0.3580, 0.3191), (0.3073, 0.2542, 0.2510))
LEAF = partial(
    DatasetInfo,
    model="cnn-mnist",
    licence="NIST SD 19, public domain; LEAF, BSD-2-Clause",
    homepage="https://leaf.cmu.edu",
    normalisation=Normalisation((0.9642384386,), (0.1576784320,)),
)
ORGANS = partial(
    DatasetInfo,
    model="cnn-organ",
    licence="CC BY 4.0",
    homepage="https://medmnist.com",
    normalisation=Normalisation((0.5,), (0.5,)),
)
CIFAR = "https://www.cs.toronto.edu/~kriz"
TINY_IMAGES = partial(
    DatasetInfo, model="cnn-cifar", licence="none stated; research use", homepage=f"{CIFAR}/cifar.html"
)

FETCH = "leakscope data fetch {}"
ORGAN28 = (Form("organamnist.npz", read_medmnist), Form("organamnist28.npz", read_npz))
ORGAN64 = (Form("organamnist_64.npz", read_medmnist), Form("organamnist64.npz", read_npz))
ZENODO = "https://zenodo.org/records/10519652/files"

DATASETS: dict[str, DatasetInfo] = {
    "photos": DatasetInfo(
        description="540 views of nine colour photographs at 32x32: needs no download, the default",
        model="cnn-cifar",
        licence="public domain, CC0 or no known restrictions, as stated in scikit-image and matplotlib",
        homepage="https://scikit-image.org/docs/stable/api/skimage.data.html",
        normalisation=PHOTOS_SCALE,
        expected=Expected(classes=len(PHOTOS), channels=(3,), side=32),
        how="comes with leakscope",
    ),
    "cifar100": TINY_IMAGES(
        description="CIFAR-100, 60,000 colour images of 100 things at 32x32",
        normalisation=CIFAR100_SCALE,
        expected=Expected(classes=100, channels=(3,)),
        how=FETCH.format("cifar100"),
        forms=(Form("cifar-100-python/train", read_cifar100), Form("cifar100.npz", read_npz)),
        download=Download(
            url=f"{CIFAR}/cifar-100-python.tar.gz",
            checksum="md5:eb9058c3a382ffc7106e4002c42a8d85",
            makes="cifar-100-python",
            kind="tar",
        ),
        auxiliary="cifar10_public",
    ),
    "femnist": LEAF(
        description="FEMNIST of the LEAF benchmark, handwritten characters at 28x28, one client per writer",
        expected=Expected(classes=62, channels=(1,), by_writer=True),
        how=f"{FETCH.format('femnist')} (5 % of the writers; takes 5 GB for a moment), or LEAF's own script",
        forms=(
            Form("femnist/data/train/*.json", read_leaf),
            Form("leaf/data/femnist/data/train/*.json", read_leaf),
            Form("femnist/data/train-*.parquet", read_parquet),
            Form("emnist_all.sqlite", read_sqlite),
            Form("femnist.npz", read_npz),
        ),
        download=Download(
            url="https://storage.googleapis.com/tff-datasets-public/emnist_all.sqlite.lzma",
            checksum="sha256:c3aaf91b4cf4e69d53d81627ad119eccdc878ff906f68e66063ff10f67faad48",
            makes="femnist.npz",
            kind="sqlite",
        ),
        auxiliary="femnist_public",
        # with at least 40 different characters among their first 50 samples; no default was chosen on them
        reported=("40", "42", "47", "57", "61", "62", "65", "25", "27", "29", "30"),
    ),
    "tiny_imagenet": DatasetInfo(
        description="Tiny-ImageNet-200, colour images of 200 things at 64x64",
        model="mlp-tiny",
        licence="ImageNet terms of access; research use",
        homepage="https://cs231n.stanford.edu",
        normalisation=TINY_SCALE,
        expected=Expected(classes=200, channels=(3,)),
        how=FETCH.format("tiny_imagenet"),
        forms=(Form("tiny-imagenet-200/wnids.txt", read_tiny_imagenet), Form("tiny_imagenet.npz", read_npz)),
        download=Download(
            url="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            checksum="md5:90528d7ca1a48142e341f4ef8d21d0de",
            makes="tiny-imagenet-200",
            kind="zip",
        ),
    ),
    "organamnist64": ORGANS(
        description="OrganAMNIST of MedMNIST+, abdominal CT of 11 organs at 64x64",
        expected=Expected(classes=11, channels=(1,), side=64),
        how=FETCH.format("organamnist64"),
        forms=ORGAN64,
        download=Download(
            url=f"{ZENODO}/organamnist_64.npz?download=1",
            checksum="md5:2dcccc29b88e6da5a01161ef20cda288",
            makes="organamnist_64.npz",
            kind="file",
        ),
        stand_ins=("organamnist28", "organamnist28@64"),
    ),
    "organamnist28": ORGANS(
        description="OrganAMNIST of MedMNIST v2, abdominal CT of 11 organs at 28x28",
        expected=Expected(classes=11, channels=(1,), side=28),
        how=FETCH.format("organamnist28"),
        forms=ORGAN28,
        download=Download(
            url=f"{ZENODO}/organamnist.npz?download=1",
            checksum="md5:68e3f8846a6bd62f0c9bf841c0d9eacc",
            makes="organamnist.npz",
            kind="file",
        ),
    ),
    "organamnist28@64": ORGANS(
        description="organamnist28 enlarged to 64x64 (bilinear): 28x28 detail in the paper's image size",
        expected=Expected(classes=11, channels=(1,), side=64),
        how=FETCH.format("organamnist28"),
        forms=tuple(Form(form.place, upsampled(form.read, 64)) for form in ORGAN28),
    ),
    "femnist_public": LEAF(
        description="FEMNIST samples of further writers: public auxiliary data, disjoint from every client",
        expected=Expected(classes=62, channels=(1,)),
        how="make femnist_public.npz (images, labels, writer_names) from writers who are no clients",
        forms=(Form("femnist_public.npz", read_npz),),
        for_priors=True,
    ),
    "cifar10_public": TINY_IMAGES(
        description="CIFAR-10, colour images of 10 things at 32x32: public auxiliary data",
        normalisation=CIFAR10_SCALE,
        expected=Expected(classes=10, channels=(3,)),
        how=FETCH.format("cifar10_public"),
        forms=(Form("cifar-10-batches-py/data_batch_*", read_cifar10), Form("cifar10_public.npz", read_npz)),
        download=Download(
            url=f"{CIFAR}/cifar-10-python.tar.gz",
            checksum="md5:c58f30108f718f92721af3b95e74349a",
            makes="cifar-10-batches-py",
            kind="tar",
        ),
        for_priors=True,
    ),
    "folder:PATH": DatasetInfo(
        description="your own images, one sub-folder per class",
        model="cnn-cifar",
        licence="yours",
        how="sort your images into PATH/<class>/",
        for_priors=True,
    ),
}
EITHER: dict[str, tuple[str, ...]] = {"organamnist": ("organamnist64", "organamnist28")}
"""Short names for the first of several data sets that is there; what is loaded has its own name."""


def dataset_info(name: str) -> DatasetInfo:
    """The entry of a name as users type it: also `folder:/any/path` and short names."""
    key = "folder:PATH" if name.startswith("folder:") else EITHER.get(name, (name,))[0]
    if key not in DATASETS:
        raise InputError(unknown("dataset", name, (*DATASETS, *EITHER)))
    return DATASETS[key]


def default_model(dataset_name: str) -> str:
    """The victim a data set is audited with unless another is named."""
    return dataset_info(dataset_name).model
