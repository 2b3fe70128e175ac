# SPDX-License-Identifier: BSD-2-Clause
"""Whether a file is what would be made again: of the same content, by the same tool.

What a file was made of lies beside it, in FILE.made.json: hashes and options, no paths, and the file's own hash.
So it can move along, and a file that somebody has edited is made again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from host_tools.support.files import write_atomically
from host_tools.tasks.task import content_hash
from trace_format import limits
from trace_format.errors import GramophoneError
from trace_format.files import read_file

SUFFIX = ".made.json"


def why_changed(output: Path, ingredients: Mapping[str, str]) -> str:
    """Why a file must be made again, as a sentence's end; "" if it need not.

    Args:
        output: the file.
        ingredients: what it would be made of, as of `task.Task.ingredients`.

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
