# SPDX-License-Identifier: BSD-2-Clause
"""What the crypto libraries' files must be: hashes of all that replayers link or include, beside this module in
the form of sha256sum, which checks a tree too. They are of the files in Debian's bearssl 0.6+dfsg.1-3 and
rust-aws-lc-sys 0.42.0+dfsg-1; another version with the same files is as good.

Otherwise a cache that was changed would be linked as it is, and a firmware built again from it would be the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from trace_format.files import read_file

NO_FILE = "no file"


@dataclass(frozen=True)
class Difference:
    """A file that is not as it must be.

    Attributes:
        name: in the library's tree.
        expected: its SHA-256 in hexadecimal; NO_FILE: there is none of this name where compilers look for headers.
        found: likewise.
    """

    name: str
    expected: str
    found: str


def known(library: str) -> dict[str, str]:
    """Name of a file in a library's tree -> SHA-256 in hexadecimal.

    Args:
        library: "bearssl" or "aws-lc".
    """
    text = (resources.files("tee_replayer.crypto") / f"{library}.sha256").read_text(encoding="utf-8")
    return {name: digest for digest, _, name in (row.partition("  ") for row in text.splitlines())}


def found(library: str, tree: Path, include: Iterable[str]) -> dict[str, str]:
    """The same of a tree: the files that are known, and headers beside them; a missing file is NO_FILE.

    Args:
        library: as for `known`.
        tree: its sources.
        include: folders in it that compilers look for headers in.

    Raises:
        OSError: a file cannot be read.
    """
    names = {*known(library)}
    for folder in include:
        names.update(path.relative_to(tree).as_posix() for path in (tree / folder).glob("*.h"))
    return {name: _hash(tree / name) for name in sorted(names)}


def differences(library: str, rows: dict[str, str]) -> list[Difference]:
    """Files of a library that are not as they must be, of what `found` gave."""
    right = known(library)
    pairs = ((name, right.get(name, NO_FILE), digest) for name, digest in rows.items())
    return [Difference(name, expected, digest) for name, expected, digest in pairs if expected != digest]


def digest(rows: dict[str, str]) -> str:
    """One hash for all files of a tree, of what `found` gave: SHA-256 of its rows in the form of sha256sum."""
    return hashlib.sha256("".join(f"{row}  {name}\n" for name, row in rows.items()).encode()).hexdigest()


def _hash(path: Path) -> str:
    return hashlib.sha256(read_file(path)).hexdigest() if path.is_file() else NO_FILE
