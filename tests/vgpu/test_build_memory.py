# SPDX-License-Identifier: BSD-2-Clause
"""Resident memory of `build` as a recording grows: a multiple of what it grows by."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from host_tools.demo import RAW
from host_tools.support import programs
from tests.bench import usage
from trace_format.actions import ACTION_DTYPE, MAP_READ, MAP_WRITE, Columns, Op, action
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

PAGES = 8192
SIZE = PAGES * PAGE_BYTES
FRAME, VA_PAGE = 0x10000, 0x80000  # below the recorded machine's memory, and above what the recording maps
COPIES = 3


def larger(trace: Trace) -> Trace:
    """The recording with more memory, which is mapped and filled, and which no job uses."""
    source = len(trace.image)
    at = 1 + int(np.argmax(Columns(trace.actions).is_op(Op.REPLAY_START)))
    rows = [
        action(
            Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, address_space=0, va_page=VA_PAGE, pages=PAGES, frame=FRAME
        ),
        action(Op.UPLOAD, bytes=SIZE, target=FRAME * PAGE_BYTES, source=source),
    ]
    return trace.with_(
        actions=np.insert(trace.actions, at, np.array(rows, ACTION_DTYPE)),
        image=bytes(trace.image) + np.random.default_rng(1).bytes(SIZE),
    )


def peak(trace: Trace, folder: Path) -> int:
    """Bytes that are resident at most while a process builds the trace."""
    raw = folder / "raw.gtr"
    raw.write_bytes(trace.build(compress=False))
    command = [sys.executable, usage.__file__, sys.executable, "-m", "host_tools.cli", "build", str(raw)]
    done = programs.run([*command, "-o", str(folder / "built.gtr")])
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stderr.splitlines()[-1])["peak_bytes"])


@pytest.mark.exhaustive  # the next test has a recording as large, and an output
def test_copies_of_what_a_recording_holds(tmp_path: Path) -> None:
    recording = Trace.read(RAW)
    grown = peak(larger(recording), tmp_path) - peak(recording, tmp_path)
    assert grown < COPIES * SIZE
    assert grown > SIZE  # it is in memory


def test_copies_of_what_jobs_may_read(tmp_path: Path) -> None:
    """It is an output here, so that it stays in the trace. A replay's memory shares the image."""
    recording = Trace.read(RAW)
    slot = Slot("more", SlotKind.OUTPUT, DType.UINT8, (SIZE,), (1,), VA_PAGE * PAGE_BYTES)
    large = larger(recording)
    grown = peak(large.with_(slots=[*large.slots, slot]), tmp_path) - peak(recording, tmp_path)
    assert grown < 3.9 * SIZE  # one of them is the answer of the process in the sandbox
    assert grown > SIZE


def test_build_needs_no_cryptography() -> None:
    """Whose libraries take memory."""
    code = "import sys, host_tools.commands.build; sys.exit('cryptography' in sys.modules)"
    assert programs.run([sys.executable, "-c", code]).returncode == 0
