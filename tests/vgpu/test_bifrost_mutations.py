# SPDX-License-Identifier: BSD-2-Clause
"""A change of any operation's result in the interpreter of Bifrost shaders is noticed by a vector."""

from __future__ import annotations

import ctypes
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from host_tools.gpus import mali
from host_tools.vgpu import VgpuError, build
from tests.support.bifrost_board import ShaderBoard
from tests.support.bifrost_meaning import Row
from tests.vgpu.test_bifrost_operations import expected, inputs, rows

SOURCES = Path(mali.__file__).with_name("vgpu") / "bifrost"
LANES = "mali_bifrost_lanes.h"
RESULT = "to[i] = (expression);"
CHANGE = 0x00400001
CONDITIONS = {"ORDER": ("gt", "ge"), "EQUALITY": ("eq", "ne"), "REVERSE": ("lt", "le")}
# Parts of registers, addresses in storage: test_bifrost_programs.py; branches: test_bifrost_branches.py.
ELSEWHERE = re.compile(
    r"bifrost_move_(low|high)|branch_.*|bifrost_segment_high|icmp_[su]32_l[te]|icmp_s32_(eq|ne)"
)


def handlers() -> list[str]:
    """Names of all handlers, each of which computes one operation or a variant of it."""
    found = []
    for path in sorted(SOURCES.glob("*.c")):
        text = path.read_text(encoding="utf-8")
        found += re.findall(r"^(?:static )?BIFROST_(?:SLOW_)?HANDLER\(\s*(\w+)", text, re.MULTILINE)
        for kind, row in re.findall(r"^(ORDER|EQUALITY|REVERSE)\((\w+),", text, re.MULTILINE):
            found += [f"{row}_{condition}" for condition in CONDITIONS[kind]]
    return [name for name in found if not ELSEWHERE.fullmatch(name)]


@pytest.fixture(scope="module")
def mutable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The virtual GPU with a variable for each handler, whose bits are changed in its results."""
    folder = tmp_path_factory.mktemp("mutable")
    lanes = (SOURCES / LANES).read_text(encoding="utf-8")
    assert lanes.count(RESULT) == 1
    lanes = lanes.replace(RESULT, "to[i] = (expression) ^ change_##name;")
    lanes = lanes.replace("void name(const", "uint32_t change_##name; void name(const")
    (folder / LANES).write_text(lanes, encoding="utf-8")
    sources = []
    for path in build.gpu_sources():
        text = path.read_text(encoding="utf-8")
        if f'#include "{LANES}"' in text:
            path = folder / path.name
            path.write_text(text.replace("static BIFROST", "BIFROST"), encoding="utf-8")
        sources.append(path)
    version = hashlib.sha256(lanes.encode()).hexdigest()[:16]
    return build.shared_object("mutable", sources, ["-O1", f"-DVERSION_{version}"])


def is_noticed(board: ShaderBoard, row: Row) -> bool:
    """Whether a row's results are wrong, or its program does not come to its end."""
    try:
        return not np.array_equal(board.compute(row.fma_word, row.add_word, inputs()), expected(row))
    except (AssertionError, VgpuError):
        return True


@pytest.mark.sampled(12)
@pytest.mark.parametrize("handler", handlers())
def test_a_changed_result_is_noticed(mutable: Path, handler: str) -> None:
    change = ctypes.c_uint32.in_dll(ctypes.CDLL(str(mutable)), f"change_{handler}")
    board = ShaderBoard(library=mutable, threads=1)
    change.value = CHANGE
    try:
        assert any(is_noticed(board, row) for row in rows().values())
    finally:
        change.value = 0


def test_without_a_change_nothing_is_noticed(mutable: Path) -> None:
    board = ShaderBoard(library=mutable, threads=1)
    assert not any(is_noticed(board, row) for row in list(rows().values())[::13])
