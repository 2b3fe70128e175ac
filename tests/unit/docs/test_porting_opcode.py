# SPDX-License-Identifier: BSD-2-Clause
"""An opcode is its row: in a copy of the tree, a new one changes everything that follows from the action table.

What carries it out is the rest: a line of tee_replayer/core/run.c and one of the interpreter. With a test of its
own that makes four files, as docs/PORTING.md says.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import CHECKOUT
from trace_format import profile

FOLDERS = ("trace_format", "host_tools", "tee_replayer", "signing", "baremetal")
ROW = """        ActionType(
            Op.REG_WAIT_TOGGLE,
            "wait until a bit of a register has changed",
            (_READ, operand("keep", Type.KEEP, "which kept value", "b"),
             operand("timeout_us", Type.TIMEOUT, _LATEST, "value")),
            {1: Flag("twice", "wait for two changes", "t")},
            words="{register} against {keep} within {timeout_us} {flags}",
        ),
"""
NEXT = "        ActionType(\n            Op.SET_GPU_PGTABLE,"
# What follows, printed by a program that runs in the copy.
PROGRAM = """
import json
from trace_format import profile
from trace_format.actions import Action, Columns, Op, action, array_of
from trace_format.emit import c_header, kaitai, markdown
from trace_format.errors import TraceError
from trace_format.validate import check_actions
from host_tools.model.description import describe_action
from tee_replayer.generator.status import Report, value_of

def error(**operands):
    try:
        check_actions(array_of([Action._make([6, 0, 0, 0, 0, 0]).with_(**operands)]), image_bytes=0,
                      carveout_bytes=4096, va_bytes=4096, slot_count=0, window_bytes=64, lines=1, address_spaces=1,
                      where="")
    except TraceError as wrong:
        return str(wrong)
    return ""

gpu = profile.load("v3d42")
new = action(Op.REG_WAIT_TOGGLE, flags=1, register=5, keep=3, timeout_us=70)
report = Report(value_of("TIMEOUT"), 3, 9, new.op, 20, 0, 0, 0, 0, 0, 0)
print(json.dumps({
    "dump": describe_action(new, gpu, []),
    "report": report.describe(gpu),
    "columns": Columns(array_of([new])).keep.tolist(),
    "errors": [error(register=5, keep=3, timeout_us=70), error(register=16, timeout_us=1),
               error(keep=8, timeout_us=1), error(), error(timeout_us=1, a=1), error(timeout_us=1, flags=2)],
    "C": c_header.emit(), "markdown": markdown.emit(), "kaitai": kaitai.emit(),
}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program prints in a copy of the tree with the new row."""
    folder = tmp_path_factory.mktemp("tree")
    for name in FOLDERS:
        shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    table = folder / "trace_format" / "opcodes.py"
    text = table.read_text()
    for before, after in (
        ("    SET_GPU_PGTABLE = 0x10\n", "    REG_WAIT_TOGGLE = 0x06\n    SET_GPU_PGTABLE = 0x10\n"),
        (NEXT, ROW + NEXT),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    table.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_dump_and_report_name_its_operands(found: dict[str, Any]) -> None:
    name = profile.load("v3d42").describe(20)
    assert found["dump"] == f"RegWaitToggle {name} against kept[3] within 70 us t"
    assert f"action 9: RegWaitToggle {name}" in found["report"]
    assert found["columns"] == [3]


def test_the_host_checks_its_operands(found: dict[str, Any]) -> None:
    good, *bad = found["errors"]
    assert good == ""
    words = ("register outside", "no such kept value", "timeout is zero", "does not use", "does not use")
    for message, expected in zip(bad, words, strict=True):
        assert message.startswith("action 0: ")
        assert expected in message
        assert "RegWaitToggle" in message


def test_the_core_checks_its_operands(found: dict[str, Any]) -> None:
    needs = "X(GR_OP_REG_WAIT_TOGGLE, GR_NEED_KNOWN | GR_NEED_READS | GR_NEED_KEEPS | GR_NEED_HAS_VALUE)"
    assert needs in found["C"]
    assert "#define GR_OP_GROUP 7u\n" in found["C"]
    assert "GR_OP_REG_WAIT_TOGGLE = 0x06, /* wait until a bit of a register has changed */" in found["C"]
    assert "#define GR_REG_WAIT_TOGGLE_TWICE 1u /* wait for two changes */" in found["C"]


def test_documents_and_descriptions_have_it(found: dict[str, Any]) -> None:
    assert "| `0x06` | **RegWaitToggle** | wait until a bit of a register has changed |" in found["markdown"]
    rules = found["markdown"].splitlines()
    assert any(r.startswith("- **keep** of ") and "`RegWaitToggle`: less than 8." in r for r in rules)
    assert any(r.startswith("- **timeout_us** of ") and "`RegWaitToggle`" in r for r in rules)
    assert "op == op::reg_wait_toggle" in found["kaitai"]


def test_the_core_compiles_with_it(found: dict[str, Any], tmp_path: Path) -> None:
    """core/check.c's table takes the new opcode, though it begins a group that is larger."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is missing: apt-get install gcc")
    (tmp_path / "gramophone_trace.h").write_text(found["C"])
    source = tmp_path / "table.c"
    lines = (CHECKOUT / "tee_replayer" / "core" / "check.c").read_text().splitlines()
    starts = ("#define AT(", "#define NEEDS_OF(", "static const uint16_t needs")
    table = [line for line in lines if line.startswith(starts)]
    assert len(table) == 3
    source.write_text(
        "\n".join(
            [
                '#include "gramophone_trace.h"',
                "#include <stdio.h>",
                *table,
                "int main(void)",
                "{",
                '    printf("%u %u\\n", needs[AT(GR_OP_REG_WAIT_TOGGLE)], needs[AT(GR_OP_REPLAY_START)]);',
                "    return 0;",
                "}",
            ]
        )
    )
    program = tmp_path / "table"
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}", str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert printed == [str(0x8000 | 1 | 4 | 8), str(0x8000)]
