# SPDX-License-Identifier: BSD-2-Clause
"""Rules of options name options that there are, and each is applied."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from host_tools.commands.framework import GramophoneCommand, Outcome
from host_tools.commands.option_rules import excludes, requires
from tests.support.commands import commands


@click.command("try", cls=GramophoneCommand, example="gramophone try")
@click.option("--a")
@click.option("--b", default="b")
@click.option("-c", "--c", is_flag=True)
@excludes("--a", "--b", "--c")
@requires("--c", "--b")
def command(a: str | None, b: str, c: bool) -> Outcome[None]:
    """Try it."""
    return Outcome(None, f"{a} {b} {c}")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--a 1 --b 2", "--a cannot be combined with --b"),
        ("--c --b 2 --a 1", "--a cannot be combined with --b"),
        ("-c", "--c requires --b"),
        ("--a 1", ""),
        ("-c --b 2", ""),
        ("", ""),
    ],
)
def test_rules_are_applied(line: str, said: str) -> None:
    done = CliRunner().invoke(command, line.split())
    assert done.exit_code == (2 if said else 0), done.output
    assert said in done.stderr


def test_rules_name_options_of_their_commands() -> None:
    ruled = {words: command for words, command in commands() if hasattr(command.callback, "option_rules")}
    assert {"replay", "verify log", "make", "enrol", "report"} <= ruled.keys()
    for words, one in ruled.items():
        options = {name for param in one.params for name in param.opts}
        for option, others, *_ in one.callback.option_rules:  # type: ignore[union-attr]
            assert {option, *others} <= options, words
