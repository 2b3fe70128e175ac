# SPDX-License-Identifier: BSD-2-Clause
"""An option has one meaning, wherever it is: its help is the same, or says the same of another thing."""

from __future__ import annotations

import re
from collections import defaultdict

import click
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from tests.support.commands import commands, find
from tests.support.places import CHECKOUT

# Options whose help differs by command -> what each of these texts has.
MEANINGS = {
    "--all": "All ",
    "--attestation": "[Aa]ttestation",
    "--board": "[Bb]oard",
    "--builder": r"uilder .*\(URI\)",
    "--by": "Row of the table",
    "--check": "instead of writing",
    "--chip": "Board",
    "--co-execute": "CPU",
    "--compare": "Trace to compare with",
    "--constants": "Constants of a board",
    "--device-id": "[Dd]evice",
    "--dry-run": "Print the ",
    "--expect": "value of an output",
    "--force": "Replace the",
    "--gpu": "GPU",
    "--input": "input slot",
    "--key": "[Pp]ublic key",
    "--longest": "Longest job|longer estimate",
    "--name": "Name of the",
    "--network": "Network of a joint trace",
    "--nonce": "attestation",
    "--online": "signs what is newest",
    "--output": "write|[Ff]ile|Folder",
    "--param": "parameter slot",
    "--period": "Period of a network's requests",
    "--platform": "platform|Platform",
    "--repeat": "Replays",
    "--root": "Public key that signs",
    "--root-threshold": "Number of signatures required",
    "--seed": "Seed of",
    "--shape": "shape",
    "--share": "Run two networks at once",
    "--targets": "signs the list",
    "--timeout": "Time limit of a",
    "--tolerance": "Largest difference from",
    "--trace": "[Tt]race",
    "--trust-policy": r"Trust policy \(\.gtp\)",
    "--until": "Stop after this",
}
RENAMED = [(words, old, new) for words, command in commands() for old, new in command.renamed.items()]


def helps() -> dict[str, set[str]]:
    """Option -> all that help says of it."""
    found = defaultdict(set)
    for _, command in commands():
        for param in command.params:
            if isinstance(param, click.Option) and not param.hidden:
                for name in param.opts:
                    found[name].add(str(param.help))
    return found


def test_an_option_has_one_meaning() -> None:
    several = {name: texts for name, texts in helps().items() if len(texts) > 1 and name.startswith("--")}
    assert several.keys() == MEANINGS.keys()
    for name, texts in several.items():
        for text in texts:
            assert re.search(MEANINGS[name], text), (name, text)


def test_the_page_has_one_row_for_an_option() -> None:
    page = (CHECKOUT / "docs/COMMANDS.md").read_text(encoding="utf-8")
    rows = page.partition("## One vocabulary")[2].partition("\n\nWhere a file")[0].splitlines()
    named = [
        name for row in rows if row.startswith("| `") for name in re.findall(r"`(--[a-z-]+)`", row.split("|")[1])
    ]
    assert len(named) > 50
    assert sorted(named) == sorted(set(named))


@pytest.mark.parametrize(("words", "old", "new"), RENAMED)
def test_an_old_option_is_the_new_one(words: str, old: str, new: str) -> None:
    command = find(words.split())
    assert isinstance(command, click.Command)
    options = {name: param for param in command.params for name in param.opts}
    assert new in options
    assert old not in options
    done = CliRunner().invoke(main, [*words.split(), f"{old}=x", "--bogus"])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"note: '{old}' is now '{new}'\nerror: No such option '--bogus'")


def test_options_were_renamed() -> None:
    assert len(RENAMED) == 6
