# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone manual`: a page for every command, which man formats without a complaint, and completion."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.device import cli as device
from tests.support import installed
from tests.support.commands import commands
from tests.support.places import CHECKOUT


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prefix")
    done = CliRunner().invoke(main, ["manual", "-o", str(folder), "--json"], catch_exceptions=False)
    assert sorted(json.loads(done.stdout)["files"]) == sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    )
    return folder / "share"


def test_every_command_has_a_page_with_its_options_and_examples(share: Path) -> None:
    for name, command in commands():
        text = (share / "man" / "man1" / f"gramophone-{name.replace(' ', '-')}.1").read_text().replace("\\-", "-")
        for param in (param for param in command.params if isinstance(param, click.Option)):
            for option in param.opts:
                assert (option in text) != param.hidden, (name, option)
        for line in command.example.splitlines():
            assert line in text
    page = (share / "man" / "man1" / "gramophone-tee.1").read_text().replace("\\-", "-")
    for name, _ in device.help_of_commands(device.parser()):
        assert f".SH {name.upper()}\n" in page


def test_man_formats_them(share: Path) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed (apt-get install groff)")
    for page in sorted((share / "man" / "man1").iterdir()):
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-P-cbou", "-ww", str(page)], capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        assert "EXIT STATUS" in done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("gramophone re", {"record", "replay", "report"}),
        ("gramophone cache cl", {"clean"}),
        ("gramophone replay --ex", {"--expect"}),
    ],
)
def test_bash_completes(words: str, expected: set[str]) -> None:
    """What the script in share asks the program."""
    environment = {
        **os.environ,
        "_GRAMOPHONE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, installed.program("gramophone")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert {line.split(",")[1] for line in done.stdout.splitlines()} == expected


def test_every_help_has_examples_of_that_command() -> None:
    for name in [*dict(commands()), "record", "import", "cache", ""]:
        done = CliRunner().invoke(main, [*name.split(), "--help"])
        examples = done.stdout.partition("Example:\n")[2].splitlines()
        assert examples
        assert any(line.strip().startswith(f"gramophone {name}".rstrip()) for line in examples)
    for name, text in device.help_of_commands(device.parser()):
        assert f"Example:\n  gramophone-tee {name} " in text


def test_the_page_of_commands_has_them_all() -> None:
    """Every command in its section, every option that it names in some command."""
    page = (CHECKOUT / "docs" / "COMMANDS.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (`.*`) \|$", page.partition("\n## One vocabulary")[0], re.MULTILINE)
    assert [title for title, _ in rows] == list(main.tree.sections)
    titles = reversed(main.tree.sections.items())  # a word is in the first section that has a command of it
    first = {path.split()[0]: title for title, paths in titles for path in paths}
    listed = {name: title for title, cell in rows for name in re.findall("`([^`]+)`", cell)}
    assert listed.keys() == main.tree.commands.keys()
    assert {name: first[name.split()[0]] for name in listed} == listed
    rows = page.partition("## One vocabulary")[2].partition("\n\nWhere a file")[0].splitlines()
    named = {option for row in rows for option in re.findall(r"`(--?[a-z-]+)`", row)}
    params = [param for command in dict(commands()).values() for param in command.params]
    known = {opt for param in params for opt in (*param.opts, *param.secondary_opts)}
    assert named - known - {"-h", "--help"} == set()


# An option has one meaning, and the same letters, wherever it is.
LETTERS = {"--output": "-o", "--verbose": "-v", "--quiet": "-q"}


def test_one_vocabulary() -> None:
    for name, command in commands():
        options = {opt: param for param in command.params for opt in param.opts if isinstance(param, click.Option)}
        assert {"--json", "--verbose", "--quiet", "--log"} <= options.keys()
        for long, short in LETTERS.items():
            assert (long in options) == (short in options), name
        if "--key" in options and not options["--key"].hidden:
            assert "public key" in str(options["--key"].help).lower(), name
        if "--signing-key" in options:
            assert "Private key" in str(options["--signing-key"].help)
        for option, word in (("--input", "input slot"), ("--param", "parameter slot")):
            if option in options:
                assert word in str(options[option].help), name
    tee = dict(device.help_of_commands(device.parser()))["replay"]
    for option in ("--input", "--param", "-o", "--output", "--repeat", "--json", "-v", "-q", "--log"):
        assert option in tee


def test_groups_name_options_and_help_shows_each_once() -> None:
    grouped = {name: command for name, command in commands() if getattr(command, "groups", None)}
    assert {"replay"} <= {name.split()[-1] for name in grouped}
    for name, command in grouped.items():
        named = [option for options in command.groups.values() for option in options]
        assert len(named) == len(set(named)), name
        assert set(named) <= {opt for param in command.params for opt in param.opts}, name
        with click.Context(command, info_name=name) as ctx:
            shown = [record for records in command.grouped(ctx).values() for record in records]
            records = (param.get_help_record(ctx) for param in command.get_params(ctx))
            assert sorted(shown) == sorted(record for record in records if record is not None)
