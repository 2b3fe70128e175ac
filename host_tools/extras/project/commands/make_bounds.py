# SPDX-License-Identifier: BSD-2-Clause
"""What a project file may reach: files in its folder, and no program.

It can come from a stranger, with the repository that it lies in. So each path that it names must lie in its
folder, links followed, whether it is read or written. What starts a program, loads a library or compiles code
needs `make --allow-programs`, or the user's settings (make_settings.py).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from trace_format.errors import TraceError
from trace_format.toml_table import Table

# Options that start a program, load a library, or have code of the project compiled, which can include any file.
PROGRAMS = {
    "--signer-command": "starts a program",
    "--pkcs11": "loads a library",
    "--policy": "is C code to compile",
}


class ProjectError(TraceError):
    """A project file that is not what it must be."""


@dataclass(frozen=True)
class Folder:
    """Where a file's paths begin.

    Attributes:
        path: the folder.
        is_bounded: whether they must stay in it.
    """

    path: Path
    is_bounded: bool = True

    def inside(self, table: Table, key: str, text: str) -> Path:
        """The path that a key names, of an input or an output; all that lies in a folder counts.

        Raises:
            ProjectError: it leads out of the project's folder.
        """
        if "\0" in text:
            raise table.fail(key, "a path", repr(text))
        root, seen, left = Path(os.path.realpath(self.path)), set[str](), [os.path.join(self.path, text)]
        while left and self.is_bounded:
            real = os.path.realpath(left.pop())
            if not Path(real).is_relative_to(root):
                where = "" if Path(real) == Path(self.path, text) else f", which leads to {real}"
                raise table.fail(key, f"a path in the project's folder, {root}", f"{text!r}{where}")
            if real not in seen and os.path.isdir(real):
                seen.add(real)
                left += [os.path.join(real, name) for name in os.listdir(real)]
        return self.path / text


@dataclass(frozen=True)
class Program:
    """What would run.

    Attributes:
        where: table and option.
        what: the option's value.
        does: as `PROGRAMS` says it.
        source: the file that names it.
        is_projects: whether that is the project file.
    """

    where: str
    what: str
    does: str
    source: Path
    is_projects: bool
