# SPDX-License-Identifier: BSD-2-Clause
"""The tree of commands: sections, summaries that fit a line, and old names."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from tests.support.commands import commands, find

WIDTH = 80


def help_of(*words: str) -> str:
    """What --help prints on a terminal of 80 columns."""
    done = CliRunner().invoke(main, [*words, "--help"], terminal_width=WIDTH)
    assert done.exit_code == 0
    return done.stdout


def listed(text: str, title: str) -> list[str]:
    """Rows of a section of help."""
    return [line for line in text.partition(f"\n{title}:\n")[2].partition("\n\n")[0].splitlines() if line]


def groups() -> list[str]:
    """Words of all groups, the outermost first."""
    beginnings = {
        " ".join(words.split()[:count]) for words, _ in commands() for count in range(words.count(" ") + 1)
    }
    return sorted(beginnings)


@pytest.mark.parametrize("words", main.tree.commands)
def test_the_summary_is_the_command_s_own(words: str) -> None:
    command = main.tree.commands[words].load()
    assert command.name == words.split()[-1]
    assert main.tree.commands[words].summary == command.get_short_help_str(limit=1000)


def test_all_words_are_in_a_section() -> None:
    text = help_of()
    found = {title: [row.split()[0] for row in listed(text, title)] for title in main.tree.sections}
    assert found["Run"] == ["replay", "bench"]
    assert found["Audit"] == ["lint", "verify", "audit-firmware"]
    words = [word for title in found for word in found[title]]
    assert sorted(words) == sorted({words.split()[0] for words, _ in commands()})
    assert len([word for title in found if title != "More" for word in found[title]]) <= 24


@pytest.mark.parametrize("group", groups())
def test_a_summary_is_one_whole_line(group: str) -> None:
    text = help_of(*group.split())
    titles = main.tree.sections if not group else ["Commands"]
    rows = [row for title in titles for row in listed(text, title)]
    command = find(group.split())
    assert isinstance(command, click.Group)
    assert len(rows) == len(command.list_commands(click.Context(command)))
    assert all(len(row) <= WIDTH and not row.endswith("...") for row in rows)


@pytest.mark.parametrize(("old", "new"), main.tree.renamed.items())
def test_an_old_name_is_the_new_command(old: str, new: str) -> None:
    assert old not in help_of().split()
    done = CliRunner().invoke(main, [old, "--help"])
    assert done.stdout == help_of(*new.split())
    assert done.stderr == f"note: '{old}' is now '{new}'\n"


def test_verify_was_a_command() -> None:
    for words in (["net.sgtr", "--key", "pub.pem"], ["--key", "pub.pem", "net.sgtr"]):
        done = CliRunner().invoke(main, ["verify", *words])
        assert done.exit_code == 2
        assert done.stderr == "note: 'verify' is now 'verify trace'\nerror: pub.pem: No such file or directory\n"


def test_a_note_is_not_in_the_result(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["keygen", "-o", str(tmp_path / "key.pem"), "--json"])
    assert done.stderr.startswith("note: 'keygen' is now 'key new'\n")
    assert json.loads(done.stdout)["warnings"] == []
