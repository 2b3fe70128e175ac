# SPDX-License-Identifier: BSD-2-Clause
"""Whether a file is what would be made again: of the same content, by the same tool.

What a file was made of lies beside it, in FILE.made.json: hashes and options, no paths, and the file's own hash.
So it can move along, and a file that somebody has edited is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from host_tools.support.files import write_atomically
from host_tools.support.version import TOOL
from trace_format import limits
from trace_format.errors import GramophoneError
from trace_format.files import open_regular, read_file

PACKAGES = ("host_tools", "trace_format", "signing", "tee_replayer", "baremetal")
EPOCH = (
    "SOURCE_DATE_EPOCH"  # https://reproducible-builds.org/specs/source-date-epoch: the time in bills of materials
)
SUFFIX = ".made.json"


def why_changed(output: Path, ingredients: Mapping[str, str]) -> str:
    """Why a file must be made again, as a sentence's end; "" if it need not.

    Args:
        output: the file.
        ingredients: what it would be made of, each with a hash or as it is.

    Raises:
        OSError: the file is there and cannot be read.
    """
    if not output.exists():
        return "it is not there"
    try:
        said = json.loads(read_file(_beside(output), limits.SMALL_BYTES))
        before, sha256 = dict(said["ingredients"]), said["sha256"]
    except FileNotFoundError:
        return f"nothing says what it was made of: {_beside(output).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, GramophoneError):
        return f"{_beside(output).name} does not say what it was made of"
    if content_hash(output) != sha256:
        return "it has been changed since it was made"
    different = sorted(
        name for name in before.keys() | ingredients.keys() if before.get(name) != ingredients.get(name)
    )
    if not different:
        return ""
    return f"changed: {', '.join(different)}"


def keep(output: Path, ingredients: Mapping[str, str]) -> None:
    """Write down what a file was made of; OSError: it cannot be written."""
    said = {"ingredients": dict(ingredients), "sha256": content_hash(output)}
    write_atomically(_beside(output), json.dumps(said, indent=1, sort_keys=True).encode() + b"\n")


def _beside(output: Path) -> Path:
    return output.with_name(output.name + SUFFIX)


def content_hash(path: Path) -> str:
    """SHA-256 of a file's content; of a folder that of names, contents and what is executable.

    Raises:
        OSError: it cannot be read.
    """
    if not path.is_dir():
        return _file_hash(path)
    found = hashlib.sha256(b"folder")
    for file in sorted(item for item in path.rglob("*") if item.is_file()):
        runs = os.access(file, os.X_OK)
        found.update(json.dumps([str(file.relative_to(path)), runs, _file_hash(file)]).encode())
    return found.hexdigest()


def _file_hash(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tool_stamp() -> str:
    """The tool's version and its sources' hash, with the versions of its packages: any may change results."""
    found = hashlib.sha256()
    for package in PACKAGES:
        folder = Path(__file__).parents[2] / package
        # Python writes temporary files beside .pyc ones, which come and go.
        files = (item for item in folder.rglob("*") if item.parent.name != "__pycache__" and item.is_file())
        for file in sorted(files):
            found.update(json.dumps([package, str(file.relative_to(folder)), _file_hash(file)]).encode())
    try:
        required = metadata.requires("gramophone") or []
    except metadata.PackageNotFoundError:
        required = []
    versions = set()
    for requirement in required:
        match = re.match(r"[\w.-]+", requirement)
        assert match is not None  # of a wheel's metadata
        try:
            versions.add(f"{match[0]} {metadata.version(match[0])}")
        except metadata.PackageNotFoundError:
            continue  # of an extra that is not installed
    found.update(json.dumps(sorted(versions)).encode())
    return f"{TOOL} {found.hexdigest()}"
