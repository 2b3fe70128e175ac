# SPDX-License-Identifier: BSD-2-Clause
"""All commands of `gramophone`, by their words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from host_tools.cli import main
from host_tools.commands import result_schemas
from host_tools.commands.framework import GramophoneCommand


def commands() -> Iterator[tuple[str, GramophoneCommand]]:
    """Every command that runs: its words, and it."""
    for words, command in result_schemas.commands(main):
        assert isinstance(command, GramophoneCommand)
        yield " ".join(words), command


def split(line: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of a command at the beginning of a line, or those up to the first that is none, and the rest."""
    command: click.Command | None = main
    count = 0
    while isinstance(command, click.Group) and count < len(line):
        command = command.get_command(click.Context(command), line[count])
        count += 1
    return list(line[:count]), list(line[count:])


def find(words: Sequence[str]) -> click.Command | None:
    """The command, or group, of these words."""
    command: click.Command | None = main
    for word in words:
        command = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
    return command
