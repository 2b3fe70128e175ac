# SPDX-License-Identifier: BSD-2-Clause
"""Damaged GPUReplay recordings: importer and rules give a valid trace or one of their own errors, nothing else."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.gpus.mali.rules import RuleError, retarget
from tests.support import mali_rule_samples as sample
from tests.support import mali_samples as m
from tests.support.sampling import few
from trace_format.errors import TraceError
from trace_format.trace import Trace

RUNS = os.environ.get("GRAMOPHONE_FUZZ_RUNS")
runs = settings(max_examples=int(RUNS)) if RUNS else few(100, 400)
GOOD = m.recording()
NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 0xFF, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 47, 1 << 63, (1 << 64) - 1])
TEXTS = st.sampled_from([b",", b"\n", b"W", b"0x", b"ffffffff", b"0x00002400", b"0x000018e0,00000001\n", b"-"])


@st.composite
def damage(draw: st.DrawFn, good: dict[str, bytes] = GOOD) -> dict[str, bytes]:
    """A small recording with up to four changes: bytes, whole numbers, stretches lost, doubled or moved."""
    files = {name: bytearray(data) for name, data in good.items()}
    for _ in range(draw(st.integers(1, 4))):
        data = files[draw(st.sampled_from(m.NAMES))]
        at = draw(st.integers(0, max(0, len(data) - 1)))
        kind = draw(st.integers(0, 5))
        if kind == 0:
            data[at : at + 1] = draw(st.binary(min_size=1, max_size=4))
        elif kind == 1:
            data[at & ~7 : (at & ~7) + 8] = draw(NUMBERS).to_bytes(8, "little")
        elif kind == 2:
            del data[at : at + draw(st.integers(1, 5000))]
        elif kind == 3:
            data[at:at] = data[at : at + draw(st.integers(1, 5000))]
        elif kind == 4:
            data[at : at + 2] = draw(TEXTS)
        else:
            del data[at:]
    return {name: bytes(data) for name, data in files.items()}


def imports(run: Callable[[], Trace], folder: str) -> None:
    """The result is valid, or the error is one of ours and names a file."""
    message = folder
    try:
        run().check()
    except TraceError as error:
        message = str(error)
    assert folder in message


@runs
@given(damage())
def test_damaged_recordings(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = m.write(Path(folder), files)
        imports(lambda: import_gpureplay(path, "x"), folder)


@runs
@given(damage(sample.recording()))
def test_damaged_recordings_for_another_gpu(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = m.write(Path(folder), files)

        def run() -> Trace:
            raw = import_gpureplay(path, "x", "mali_g72")
            try:
                return retarget(raw, "mali_g71")[0]
            except RuleError as error:
                error.file = folder
                raise

        imports(run, folder)


@runs
@given(st.binary(max_size=200), st.sampled_from(m.NAMES))
def test_anything_as_a_file(data: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = m.write(Path(folder), {**GOOD, name: data})
        imports(lambda: import_gpureplay(path, "x"), folder)
