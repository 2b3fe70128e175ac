# SPDX-License-Identifier: BSD-2-Clause
"""Labelled pictures of handwritten digits, and the test digits that are in the tree."""

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trace_format.files import read_file

CLASSES = 10
SIDE = 28
COMMITTED = Path(__file__).parent / "lenet" / "digits.npz"


class DigitsError(Exception):
    """The digits could not be obtained, or are not what they should be."""


@dataclass(frozen=True)
class Digits:
    """Pictures and what they show.

    Attributes:
        images: uint8 (n, 28, 28); 0 is paper, 255 is ink.
        labels: uint8 (n,), 0..9.
    """

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, which: slice) -> "Digits":
        return Digits(self.images[which], self.labels[which])

    def inputs(self) -> npt.NDArray[np.float32]:
        """What the network is given: float32 (n, 1, 28, 28), 0..1."""
        return self.images[:, None].astype(np.float32) / np.float32(255)

    def save(self, path: Path) -> None:
        """Writes the digits where `load` finds them."""
        np.savez_compressed(path, images=self.images, labels=self.labels)


def load(path: Path = COMMITTED) -> Digits:
    """Reads a set of digits, by default the test digits that are in the tree.

    Raises:
        DigitsError: the file is missing, or is not a set of labelled digits.
    """
    try:
        with np.load(io.BytesIO(read_file(path)), allow_pickle=False) as arrays:
            images, labels = arrays["images"], arrays["labels"]
    except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise DigitsError(f"{path}: not a readable set of digits: {error}") from error
    shapes = {"images": (labels.size, SIDE, SIDE), "labels": (labels.size,)}
    for name, array in (("images", images), ("labels", labels)):
        if array.dtype != np.uint8 or array.shape != shapes[name]:
            found = f"{array.dtype} {array.shape}"
            raise DigitsError(f"{path}: {name}: expected uint8 {shapes[name]}, found {found}")
    if labels.size == 0 or labels.max() >= CLASSES:
        raise DigitsError(f"{path}: labels: expected at least one, each below {CLASSES}")
    return Digits(images, labels)
