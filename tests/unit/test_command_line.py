# SPDX-License-Identifier: BSD-2-Clause
"""The outermost command: its help is quick, since it imports no command, and says what the commands say."""

from __future__ import annotations

import subprocess
import sys

import pytest

from host_tools.cli import COMMANDS, main

# What takes long to import, and is in no sentence of help.
HEAVY = {"numpy", "construct", "cryptography", "cffi", "rich", "lz4", "unicorn", "elftools", "trace_format.schema"}
PROGRAM = """
import sys
from host_tools.cli import main
try:
    main({arguments!r}, prog_name="gramophone")
except SystemExit as end:
    status = end.code
print(*sys.modules, file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.parametrize(
    ("line", "status"),
    [("--help", 0), ("-h", 0), ("--version", 0), ("", 2), ("walk", 2), ("--nothing --json", 2)],
)
def test_no_heavy_imports(line: str, status: int) -> None:
    """Modules are counted and not seconds: the machine is shared."""
    program = PROGRAM.format(arguments=line.split())
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == status, result.stderr
    modules = set(result.stderr.splitlines()[-1].split())
    assert "click" in modules
    assert not modules & HEAVY
    assert {name for name in modules if name.startswith("host_tools.commands.")} == {
        "host_tools.commands.framework"
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_the_command_s_own(name: str) -> None:
    command = COMMANDS[name].load()
    assert command.name == name
    assert COMMANDS[name].summary == command.get_short_help_str(limit=1000)


def test_all_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"], standalone_mode=False)
    listed = capsys.readouterr().out.partition("Commands:\n")[2]
    assert [line.split()[0] for line in listed.splitlines()] == sorted(COMMANDS)
