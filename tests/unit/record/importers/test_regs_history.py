# SPDX-License-Identifier: BSD-2-Clause
"""Import of the register history that Arm's kbase driver prints in debugfs."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.gpus.mali.kbase import AccessError
from host_tools.record.importers.regs_history import RegsHistoryError, import_regs_history
from tests.support import mali_samples as m
from trace_format.actions import Op
from trace_format.trace import Trace

BASE = 0xFFFFFF800B8E0000


def text(base: int = BASE) -> bytes:
    lines = []
    for index, line in enumerate(m.history()):
        _, kind, offset, value = line.decode().strip().split(",")
        lines.append(f"{index:6d}: {kind.lower()}: reg {base + int(offset, 16):#018x} val {value}\n")
    return f"Last {len(lines)} register accesses of {len(lines) + 5} total:\n{''.join(lines)}".encode()


def test_registers_become_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "regs_history"
    path.write_bytes(text())
    trace = import_regs_history(path, "x")
    assert Trace.parse(trace.build()).jobs == 2
    assert trace.notes["accesses_before_the_history"] == 5
    ops = trace.actions["op"].tolist()
    assert ops.count(Op.SET_GPU_PGTABLE) == 1
    assert ops.count(Op.REG_WRITE_KEPT) == 2
    assert not {Op.MAP_GPU_MEM, Op.UPLOAD, Op.INTERVAL} & set(ops)


def test_a_history_that_begins_late(tmp_path: Path) -> None:
    lines = text().split(b"\n")[1:-1]
    late = [line[6:] for line in lines[22:]]
    path = tmp_path / "regs_history"
    path.write_bytes(
        b"Last %d register accesses of 99 total:\n" % len(late)
        + b"".join(b"%6d%s\n" % (i, line) for i, line in enumerate(late))
    )
    trace = import_regs_history(path, "late")
    assert trace.jobs == 2
    flush_ids = [r for r in trace.actions if int(r["arg"]) * 4 == 0x18F0]
    assert [int(r["op"]) for r in flush_ids] == [Op.REG_WRITE, Op.REG_WRITE_KEPT]


def test_the_command(tmp_path: Path) -> None:
    path, out = tmp_path / "regs_history", tmp_path / "out.gtr"
    path.write_bytes(text())
    result = CliRunner().invoke(main, ["import", "regs-history", str(path), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert Trace.read(out).jobs == 2
    built = CliRunner().invoke(main, ["build", str(out), "-o", str(tmp_path / "built.gtr")])
    assert built.exit_code == 2
    assert built.stderr == (
        f"error: {out}: it holds registers only, no GPU memory: it can be dumped and compared, not built\n"
    )
    assert not (tmp_path / "built.gtr").exists()


GOOD = text()
FIRST = GOOD.index(b"\n") + 1
MALFORMED: list[tuple[str, bytes, int, str]] = [
    ("empty", b"", 0, "first line"),
    ("switched off", b"The register access history is disabled\n", 0, "first line"),
    ("cut off", GOOD[:-1], GOOD.rindex(b"\n", 0, -1) + 1, "cut off"),
    ("a line missing", GOOD[: GOOD.rindex(b"\n", 0, -1) + 1], 0, "number of accesses"),
    ("a line too many", GOOD + b"     0: r: reg 0x0 val 0\n", 0, "number of accesses"),
    ("none", b"Last 0 register accesses of 0 total:\n", 0, "number of accesses"),
    (
        "more than there were",
        GOOD.replace(b" of %d total" % (len(m.history()) + 5), b" of 3 total"),
        0,
        "number of accesses",
    ),
    ("index out of order", GOOD.replace(b"     0:", b"     1:", 1), FIRST, "line 2"),
    ("no index", GOOD.replace(b"     0:", b"      :", 1), FIRST, "line 2"),
    ("unknown direction", GOOD.replace(b"0: r:", b"0: x:", 1), FIRST, "line 2"),
    ("no address", GOOD.replace(b"reg 0x", b"reg zz", 1), FIRST, "line 2"),
    ("not text", GOOD.replace(b"reg 0x", b"reg \xff\xfe", 1), FIRST, "line 2"),
    ("value of 33 bits", GOOD.replace(b"val 60a00002", b"val 160a00002", 1), FIRST, "line 2"),
    ("address far away", GOOD.replace(b"ffffff800b8e0000", b"0000000000000000", 1), FIRST, "in 0 places"),
    (
        "too few to be sure",
        b"Last 1 register accesses of 1 total:\n     0: r: reg 0x0000000000001000 val 0\n",
        37,
        "in 2 places",
    ),
]


@pytest.mark.parametrize(("name", "data", "offset", "message"), MALFORMED, ids=[row[0] for row in MALFORMED])
def test_malformed_histories(name: str, data: bytes, offset: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "regs_history"
    path.write_bytes(data)
    with pytest.raises(RegsHistoryError) as caught:
        import_regs_history(path, name)
    assert str(caught.value).startswith(f"{path} at offset {offset:#x}: ")
    assert message in str(caught.value)


def test_another_page_table_format(tmp_path: Path) -> None:
    path = tmp_path / "regs_history"
    path.write_bytes(GOOD.replace(b"val 42000006", b"val 00000000"))
    with pytest.raises(AccessError, match="another page table format"):
        import_regs_history(path, "x")
