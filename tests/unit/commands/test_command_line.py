# SPDX-License-Identifier: BSD-2-Clause
"""The outermost command: its help is quick, since it imports no command, and says what the commands say."""

from __future__ import annotations

import pytest

from tests.support import installed

# What takes long to import, and is in no sentence of help.
HEAVY = {"numpy", "construct", "cryptography", "cffi", "rich", "lz4", "unicorn", "elftools", "trace_format.schema"}


def run(line: str) -> tuple[int, str, set[str]]:
    """The installed command, on a line of arguments; see `installed.run`."""
    return installed.run(installed.program("gramophone"), *line.split())


@pytest.mark.parametrize(
    ("line", "status"),
    [("--help", 0), ("-h", 0), ("--version", 0), ("", 2), ("walk", 2), ("--nothing --json", 2)],
)
def test_no_heavy_imports(line: str, status: int) -> None:
    """Modules are counted and not seconds: the machine is shared."""
    returned, _, modules = run(line)
    assert returned == status
    assert "click" in modules
    assert not modules & HEAVY
    assert {name for name in modules if name.startswith("host_tools.commands.")} == {
        "host_tools.commands.framework",
        "host_tools.commands.option_rules",
        "host_tools.commands.tree",
    }
