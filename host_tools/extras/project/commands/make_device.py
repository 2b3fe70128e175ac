# SPDX-License-Identifier: BSD-2-Clause
"""The device file of a project's target: what it names lies in the project's folder, beside the file or below."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from host_tools.extras.project.commands.make_bounds import Folder, ProjectError
from tee_replayer.generator import device_file
from tee_replayer.generator.device_file import DeviceFile
from trace_format import limits
from trace_format.errors import GramophoneError
from trace_format.files import read_file
from trace_format.toml_table import Table, loads

IN_THE_FILE = ("gpu", "platform", "board", "generate")  # keys of a target without a device file


@dataclass(frozen=True)
class TargetDevice:
    """A device file.

    Attributes:
        path: of the file.
        says: what it says.
        files: the file and all that it names: name in the folder where `generate` runs -> path.
        untested: its features may be no profile.
    """

    path: Path
    says: DeviceFile
    files: Mapping[str, Path]
    untested: bool


def check_sources(table: Table, folder: Folder, board: Path) -> None:
    """Refuse files beside a board's description that lie elsewhere: those that it may name."""
    for file in board.parent.glob("*.[chS]"):
        folder.inside(table, "board", os.path.relpath(file, folder.path))


def read_device(table: Table, folder: Folder) -> TargetDevice:
    """The device file of a target.

    Raises:
        ProjectError: it, or a file that it names, lies elsewhere; or it is malformed.
        OSError: a file cannot be read.
    """
    path = folder.inside(table, "device", table.text("device"))
    untested = table.take("untested", bool, False)
    for key in IN_THE_FILE:
        if key in table.rows:
            raise table.fail(f"device and {key} are mutually exclusive")
    files = {path.name: path}
    rows = loads(read_file(path, limits.SMALL_BYTES), ProjectError, str(path))
    for key in device_file.PATHS:
        text = rows.get(key)
        if isinstance(text, str):
            where = f"device: {key}"
            files[text] = folder.inside(
                table, where, os.path.join(os.path.relpath(path.parent, folder.path), text)
            )
            if os.path.isabs(text) or ".." in Path(text).parts:
                raise table.fail(where, "a path beside the device file or below", repr(text))
            if key == "board":
                check_sources(table, folder, files[text])
    try:
        return TargetDevice(path, device_file.read(path), files, untested)
    except GramophoneError as error:
        raise table.fail(f"device: {error}") from None
