# SPDX-License-Identifier: BSD-2-Clause
"""The user's settings for projects, $XDG_CONFIG_HOME/gramophone/make.toml: who signs with what on this computer.

    ["/home/ann/vision".keys.owner]
    signer-command = "kms-sign --key traces {input}"

These options of `sign` are used in place of those that the project file in this folder has for the key. Paths are
relative to the settings' folder, and may lead anywhere: to a private key that lies in no repository, for example.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from host_tools.commands.sign import sign
from host_tools.extras.project.commands.make_bounds import Folder, ProjectError
from host_tools.extras.project.commands.make_options import Options, read_options
from trace_format import limits
from trace_format.files import read_file
from trace_format.toml_table import Table, loads


def settings_file() -> Path:
    """Where they are, if there are any."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".config"
    return base / "gramophone" / "make.toml"


def keys_of(project: Path, ours: Collection[str]) -> dict[str, Options]:
    """The keys that the settings have for a project, by name.

    Args:
        project: its folder.
        ours: options of `sign` that are not the user's.

    Raises:
        ProjectError: the settings are malformed, or lie in the project.
    """
    file = settings_file()
    if not file.exists():
        return {}
    try:
        if Path(os.path.realpath(file)).is_relative_to(os.path.realpath(project)):
            raise ProjectError(f"expected settings outside the project, found them in {project}")
        rows = loads(read_file(file, limits.SMALL_BYTES), ProjectError)
        return _keys(Table(rows, "", ProjectError), file, project, ours)
    except ProjectError as error:
        error.file = error.file or str(file)
        raise


def _keys(top: Table, file: Path, project: Path, ours: Collection[str]) -> dict[str, Options]:
    found: dict[str, Options] = {}
    folder = Folder(file.parent, is_bounded=False)
    for name in list(top.rows):
        if not os.path.isabs(name):
            raise top.fail("a project", "the absolute path of its folder", repr(name))
        table = top.table(name)
        keys = table.table("keys")
        table.end()
        if os.path.realpath(name) != os.path.realpath(project):
            continue
        for key in list(keys.rows):
            options = keys.table(key)
            if not options.rows:
                raise options.fail("signing-key, pkcs11 or signer-command is missing")
            found[key] = read_options(options, sign, folder, ours)
    return found
