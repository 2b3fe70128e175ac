# SPDX-License-Identifier: BSD-2-Clause
"""What came of ONNX's node tests, in a folder: compiled cases, and for each judge a line a case.

A run that is broken off, or that has not all cases, is continued where it was.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from host_tools.record.compiled.layout import laid_out
from host_tools.record.compiled.plan import Plan
from host_tools.support import plain
from tests.support.node_cases import NodeCase, Prepared, Why

Answer = tuple[Why, str]


@dataclass(frozen=True)
class _Compiled:
    plan: Plan
    shaders: list[bytes]
    inputs: dict[str, NDArray[Any]]


@dataclass(frozen=True)
class _Refused:
    why: Why
    said: str


class Kept:
    """The folder.

    Args:
        folder: made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def compiled(self, case: NodeCase) -> Prepared | Answer | None:
        """A case as it was kept, or why it was not compiled; None: it is not known."""
        path = self._path(case.name)
        if not path.exists():
            return None
        found = plain.loads(_Compiled | _Refused, path.read_bytes())
        if isinstance(found, _Refused):
            return found.why, found.said
        return Prepared(case, laid_out(found.plan), found.shaders, found.inputs)

    def keep(self, case: NodeCase, found: Prepared | Answer) -> None:
        """Keep what compiling made of a case, whole or not at all."""
        path, made = self._path(case.name), self.folder / "part"
        if isinstance(found, Prepared):
            kept: _Compiled | _Refused = _Compiled(found.layout.plan, found.shaders, found.inputs)
        else:
            kept = _Refused(*found)
        made.write_bytes(plain.dumps(kept))
        made.replace(path)

    def forget(self, name: str) -> None:
        """Have a case compiled again."""
        self._path(name).unlink(missing_ok=True)

    def answers(self, judge: str) -> dict[str, Answer]:
        """What came of cases, by name; of one that was judged twice, the last."""
        path = self._lines(judge)
        found = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            with contextlib.suppress(ValueError):  # a line that was broken off
                name, why, said = json.loads(line)
                found[name] = Why[why], said
        return found

    def add(self, judge: str, name: str, answer: Answer) -> None:
        """Keep what came of a case."""
        why, said = answer
        with self._lines(judge).open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, why.name, said]) + "\n")

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.compiled"

    def _lines(self, judge: str) -> Path:
        return self.folder / f"{judge}.rows"
