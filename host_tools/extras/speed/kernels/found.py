# SPDX-License-Identifier: BSD-2-Clause
"""What searches found of kernels, kept in the user's cache by content: what a kernel computes, the chip's
constants, the compilers' versions, and our own code that makes kernels. A second network's search begins there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from host_tools.extras.speed.kernels.candidates import Opts
from host_tools.extras.speed.kernels.measuring import Measured
from host_tools.extras.speed.kernels.space import Point
from host_tools.model.timing import Chip
from host_tools.record.compiled import runner
from host_tools.support import plain
from host_tools.support.cache import cache_dir, locked, written_whole
from host_tools.support.messages import LOG
from trace_format.files import read_file

FORMAT = "1"


@dataclass(frozen=True)
class Row:
    """A candidate and what came of it.

    Attributes:
        point: its schedule; None: the compiler's own choice.
        turn: the kernel's round of the search that tried it, from 0.
    """

    point: Point | None
    opts: Opts
    turn: int
    measured: Measured


class Cache:
    """The rows of kernels on one chip.

    Args:
        chip: whose time was measured.
        stack: names the guest's packages, the driver among them (`RecordRoot.key`).
        folder: where they are kept; None: in the user's cache.
    """

    def __init__(self, chip: Chip, stack: str, folder: Path | None = None) -> None:
        self.folder = folder or cache_dir("record", "kernels")
        self.prefix = "\0".join([FORMAT, repr(chip), stack, version("tinygrad"), _own_code()])

    def _path(self, key: str) -> Path:
        digest = hashlib.sha256(f"{self.prefix}\0{key}".encode()).hexdigest()
        return self.folder / f"{digest[:32]}.cbor"

    def read(self, key: str) -> list[Row]:
        """What is known of a kernel; what is damaged is not."""
        try:
            rows: list[Row] = plain.loads(list[Row], read_file(self._path(key)))
        except FileNotFoundError:
            return []
        except plain.PlainError as error:
            LOG.warning("%s: %s; it is measured again", self._path(key), error)
            return []
        return rows

    def add(self, key: str, rows: list[Row]) -> list[Row]:
        """Keep rows besides those that are there, and return all of them; of another search's for the same
        candidates, the first are kept."""
        path = self._path(key)
        with locked(path.with_suffix(".lock")):
            have = self.read(key)
            known = {(row.point, tuple(map(tuple, row.opts))) for row in have}
            have += [row for row in rows if (row.point, tuple(map(tuple, row.opts))) not in known]
            with written_whole(path) as temporary:
                temporary.write_bytes(plain.dumps(have))
        return have


@cache
def _own_code() -> str:
    """Hash of what makes a kernel of a schedule here."""
    digest = hashlib.sha256()
    here, compiled = Path(__file__).parent, Path(runner.__file__).parent
    for path in (here / "candidates.py", compiled / "glsl.py", here / "measuring.py", compiled / "guest/runner.c"):
        digest.update(read_file(path))
    return digest.hexdigest()
