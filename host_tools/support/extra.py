# SPDX-License-Identifier: BSD-2-Clause
"""What an extra adds to the core: the one table by which the core knows it."""

from __future__ import annotations

import glob
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from host_tools.support.messages import WARNING
from trace_format.errors import printable

if TYPE_CHECKING:
    import click

GROUP = "gramophone.extras"
FOLDER = Path(__file__).parents[1] / "extras"


@dataclass(frozen=True)
class LazyCommand:
    """Where a command is.

    Attributes:
        function: as entry points name it: MODULE:NAME.
        summary: the first sentence of its help.
        package: that adds it, if that is not ours.
    """

    function: str
    summary: str
    package: str = ""

    def load(self) -> click.Command:
        """The command itself; click.UsageError: a package that is not ours cannot be imported."""
        import click

        try:
            command: click.Command = loaded(self.function)
        except Exception as error:
            if not self.package:
                raise
            raise click.UsageError(f"package {self.package}: cannot use {self.function}: {error!r}") from error
        return command


@dataclass(frozen=True)
class Extra:
    """What an extra adds. Its module imports nothing that takes time.

    Attributes:
        name: of the extra.
        summary: what it does, in one line; help of a word that only its commands begin with.
        commands: words of a command, as "publish tuf" -> where it is.
        example: a command line, for the help of that word.
        words: summary and example of such a word, where the extra has several.
        renamed: old name of a command -> its words now, for one release.
        passes: name of a pass of `build` -> passes that run after it, each as MODULE:NAME.
        networks: how names of files end that it can record -> who chooses the way to record one, as MODULE:NAME
            (`host_tools.record.choosing.choose`).
        readers: of `inspect`, as MODULE:NAME: each takes a file's content and name, and returns in words what it
            is, and its figures by name; or None if it is something else.
        additions: place in commands of the core (`host_tools.commands.additions`) -> function whose click options
            these get, as MODULE:NAME.
    """

    name: str
    summary: str
    commands: Mapping[str, LazyCommand]
    example: str = ""
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    passes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    networks: Mapping[str, str] = field(default_factory=dict)
    readers: Sequence[str] = ()
    additions: Mapping[str, str] = field(default_factory=dict)


def loaded(place: str) -> Any:
    """What a place MODULE:NAME has."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def own() -> list[Extra]:
    """The extras of this package: the folders of host_tools/extras."""
    folders = sorted(path.parent.name for path in FOLDER.glob("*/__init__.py"))
    return [importlib.import_module(f"host_tools.extras.{folder}").EXTRA for folder in folders]


def _is_named_somewhere() -> bool:
    """Whether an installed package may have an extra: without one, help need not wait for importlib.metadata."""
    files = (file for path in sys.path for file in glob.iglob(f"{path or '.'}/*-info/entry_points.txt"))
    return any(f"[{GROUP}]".encode() in Path(file).read_bytes() for file in files)


def foreign() -> Iterator[tuple[str, Extra]]:
    """Other people's extras, each after its package's name; what cannot be imported is a warning."""
    if not _is_named_somewhere():
        return
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        package = point.dist.name if point.dist else point.value
        try:
            extra = point.load()
            if not isinstance(extra, Extra):
                raise TypeError(f"expected an Extra, found {type(extra).__name__}")
        except Exception as error:  # somebody else's code
            unusable(package, error)
        else:
            yield package, extra


def everyone() -> Iterator[tuple[str, Extra]]:
    """All extras, each after its package's name: ours first, after ""."""
    yield from (("", extra) for extra in own())
    yield from foreign()


def command(words: str) -> click.Command | None:
    """A command that an extra of ours has, by its words; None: the extra is not there."""
    found = (extra.commands[words] for extra in own() if words in extra.commands)
    return next((one.load() for one in found), None)


def unusable(package: str, error: Exception) -> None:
    """Warn of a package whose extra cannot be used."""
    import click

    click.echo(f"{WARNING}{printable(f'package {package}: its extra cannot be used: {error!r}')}", err=True)
