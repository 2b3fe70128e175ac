# SPDX-License-Identifier: BSD-2-Clause
"""What a model owner, firmware engineer or auditor can do without: an extra is a folder here, whose `__init__.py`
defines `EXTRA`, the table of what it adds to the command. Other people's packages add an `Extra` by an entry point
of the group `gramophone.extras`.

Not in here: the core, which imports no extra: an extra that is removed takes its commands with it.

Read first: __init__.py
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from host_tools.commands.tree import LazyCommand, Tree, Word
from host_tools.support.messages import WARNING
from trace_format.errors import printable

GROUP = "gramophone.extras"
SECTION = "More"


@dataclass(frozen=True)
class Extra:
    """What an extra adds. Its module imports nothing that takes time.

    Attributes:
        name: of the extra.
        summary: what it does, in one line; help of a word that only its commands begin with.
        commands: words of a command, as "publish tuf" -> where it is.
        example: a command line, for the help of that word.
        renamed: old name of a command -> its words now, for one release.
    """

    name: str
    summary: str
    commands: Mapping[str, LazyCommand]
    example: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)


def own() -> list[Extra]:
    """The extras in this folder."""
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/__init__.py"))
    return [importlib.import_module(f"{__name__}.{folder}").EXTRA for folder in folders]


def add(tree: Tree, extra: Extra, package: str = "") -> None:
    """Add the commands of an extra.

    Args:
        tree: to add to.
        extra: that is added.
        package: that it is of, if that is not ours.

    Raises:
        ValueError: words that it adds are those of another command; nothing was added.
    """
    for path in (*extra.commands, *extra.renamed):
        if not tree.is_free(path):
            raise ValueError(f"there is a command {path!r} already")
    for path, command in extra.commands.items():
        words = path.split()
        for count in range(1, len(words)):
            tree.words.setdefault(" ".join(words[:count]), Word(extra.summary, extra.example))
        tree.add(SECTION, path, replace(command, package=package))
    tree.renamed.update(extra.renamed)


def add_foreign(tree: Tree) -> None:
    """Add the extras of other people's packages; what cannot be used of them is a warning."""
    from importlib.metadata import entry_points  # which takes long, and only these need it

    for point in entry_points(group=GROUP):
        package = point.dist.name if point.dist else point.value
        try:
            add(tree, point.load(), package)
        except Exception as error:  # somebody else's code
            said = printable(f"extra {point.name!r} of package {package} cannot be used: {error!r}")
            click.echo(f"{WARNING}{said}", err=True)
