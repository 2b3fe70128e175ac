# SPDX-License-Identifier: BSD-2-Clause
"""Options of commands in a project file: a table has the names that the command line has, without the dashes.

    build = { observe = true, security-version = 3, param = { fc1 = "fc1.npy" } }

is `gramophone build ... --observe --security-version 3 --param fc1=fc1.npy`. What an option may be is asked
of the command itself, so each of its options can be used, and none is described twice.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from host_tools.commands.framework import GramophoneCommand, Pair
from host_tools.extras.project.commands.make_bounds import Folder, ProjectError
from host_tools.support.tensors import Assignment
from trace_format.errors import meant
from trace_format.toml_table import Table

EVERYWHERE = frozenset(("json", "verbose", "quiet", "log", "help", "output", "force"))


@dataclass
class Words:
    """A command line that grows, and the files that it reads, by the names that they have where it is run."""

    words: list[str] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)

    def file(self, path: Path) -> str:
        """The name for a file or folder: its own, with a number if another has it, or if it is like an option."""
        number, name = 1, path.name if not path.name.startswith("-") else f"1-{path.name}"
        while self.files.get(name, path) != path:
            number += 1
            name = f"{number}-{path.name}"
        self.files[name] = path
        return name


@dataclass(frozen=True)
class Options:
    """What a table says, ready for a command line.

    Attributes:
        rows: option with its dashes -> its values: a text, a file, or a text before `=` and a file; () for a flag.
    """

    rows: tuple[tuple[str, tuple[str, Path | str] | Path | str | None], ...] = ()

    def add_to(self, words: Words) -> None:
        """Append them to a command line."""
        for option, value in self.rows:
            words.words.append(option)
            if isinstance(value, Path):
                words.words.append(words.file(value))
            elif isinstance(value, tuple):
                what = words.file(value[1]) if isinstance(value[1], Path) else value[1]
                words.words.append(f"{value[0]}={what}")
            elif value is not None:
                words.words.append(value)

    def value(self, option: str) -> str | None:
        """What an option is that takes one text; None if it is not there."""
        return next((value for name, value in self.rows if name == option and isinstance(value, str)), None)


def read_options(
    table: Table, command: click.Command, folder: Folder, ours: Collection[str] = (), called: str = ""
) -> Options:
    """The options that are left in a table, all of which are read.

    Args:
        table: of the project file.
        command: that takes them.
        folder: that paths are relative to.
        ours: options that are not the user's, since `make` sets them.
        called: the command's words, where they are more than its name.

    Raises:
        ProjectError: an unknown option, or a value of another type; values are checked by the command, later.
    """
    known: dict[str, tuple[click.Option, bool]] = {}
    for param in command.params:
        if isinstance(param, click.Option):
            known |= {name[2:]: (param, True) for name in param.opts if name.startswith("--")}
            known |= {name[2:]: (param, False) for name in param.secondary_opts}
    if isinstance(command, GramophoneCommand):
        known |= {old[2:]: known[new[2:]] for old, new in command.renamed.items()}
    known = {name: row for name, row in known.items() if name not in EVERYWHERE.union(ours)}
    rows: list[Any] = []
    for key in list(table.rows):
        if key not in known:
            why = ": make sets it itself" if key in ours else meant(key, known)
            raise table.fail(f"{key}: no option of 'gramophone {called or command.name}'{why}")
        option, value = known[key][0], table.rows.pop(key)
        name = f"--{key}"
        if option.is_flag:
            if type(value) is not bool:
                raise table.fail(key, "true or false", repr(value))
            rows += [(name, None)] if value else []
        elif option.multiple:
            rows += [(name, item) for item in _several(table, key, value, option, folder)]
        else:
            rows.append((name, _single(table, key, value, option, folder)))
    return Options(tuple(rows))


def _single(table: Table, key: str, value: object, option: click.Option, folder: Folder) -> Path | str:
    if type(value) not in (str, int, float) or value == "":
        raise table.fail(key, "a text or a number", repr(value))
    return folder.inside(table, key, str(value)) if isinstance(option.type, click.Path) else str(value)


def _several(table: Table, key: str, value: object, option: click.Option, folder: Folder) -> list[Any]:
    if isinstance(value, dict):
        pairs = [(name, _single(table, f"{key}.{name}", item, option, folder)) for name, item in value.items()]
        files = takes_files(option)
        return [
            (name, folder.inside(table, f"{key}.{name}", str(item)) if files else item) for name, item in pairs
        ]
    found: list[Any] = []
    for item in value if isinstance(value, list) else [value]:
        single = _single(table, key, item, option, folder)
        if takes_files(option):
            found += _assigned(table, key, str(single), folder)
        else:
            found.append(single)
    return found


def takes_files(option: click.Option) -> bool:
    """Whether the values are NAME=FILE."""
    kind = option.type
    return isinstance(kind, Assignment) or (isinstance(kind, Pair) and kind.name.endswith("=FILE"))


def _assigned(table: Table, key: str, text: str, folder: Folder) -> list[tuple[str, Path]]:
    """`SLOT=FILE`, or the files in a folder, by slots."""
    slot, equals, path = text.partition("=")
    if equals:
        return [(slot, folder.inside(table, key, path))]
    found = sorted(folder.inside(table, key, text).glob("*.npy"))
    if not found:
        raise table.fail(key, "SLOT = FILE, or a folder of SLOT.npy files", repr(text))
    return [(file.stem, file) for file in found]


def checked(command: click.Command, words: list[str], where: str, file: str) -> None:
    """See that a command takes these arguments.

    Raises:
        ProjectError: it does not.
    """
    try:
        command.make_context(command.name or "", list(words))
    except click.UsageError as error:
        message = " ".join(error.format_message().split()).rstrip(".")
        raise ProjectError(f"{where}: {message}", file=file) from None
