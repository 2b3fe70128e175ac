# SPDX-License-Identifier: BSD-2-Clause
"""Values of slots on the command line: one by one, by folder, and what is reported about missing ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.passes.program import memory_bytes
from signing.sign import sign_trace
from tests.support.signing_samples import ES256
from trace_format.actions import ACTION_DTYPE, MAP_READ, MAP_WRITE, Op, action, array_of
from trace_format.errors import GramophoneError, listed
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

PARAMETERS = 11
FIRST, PAGES = 8, 4  # pages of the carve-out that are mapped


def trace() -> Trace:
    """An input and 11 parameters without values, an output."""
    kinds = [SlotKind.PARAMETER] * PARAMETERS + [SlotKind.INPUT, SlotKind.OUTPUT]
    names = [*(f"w{i}" for i in range(PARAMETERS)), "x", "y"]
    slots = [
        Slot(name, kind, DType.FLOAT32, (2, 3), (12, 4), 64 * index)
        for index, (name, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    rows = [
        action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=PAGES, frame=FIRST, address_space=0, va_page=0),
        action(Op.REPLAY_START),
        *(action(Op.COPY_TO_GPU, slot=index) for index in range(PARAMETERS + 1)),
        action(Op.JOB),
        action(Op.COPY_FROM_GPU, slot=PARAMETERS + 1),
    ]
    size = 16 * PAGE_BYTES
    return Trace("v3d42", array_of(rows), bytes(range(256)), size, size, slots, meta={"name": "n"}, raw=True)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with the trace, signed and not, and a folder of weights."""
    monkeypatch.chdir(tmp_path)
    Path("net.gtr").write_bytes(trace().build())
    Path("net.sgtr").write_bytes(sign_trace(trace().build(), ES256))
    Path("pub.pem").write_bytes(ES256.public.pem())
    Path("weights").mkdir()
    for index in range(PARAMETERS):
        np.save(f"weights/w{index}.npy", np.full((2, 3), index, np.float32))
    Path("weights/notes.txt").write_text("of no concern")


def run(line: str) -> Result:
    return CliRunner().invoke(main, line.split(), catch_exceptions=False)


def refused(line: str) -> str:
    result = run(line)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("error: ").rstrip()


PASSES_OFF = " ".join(f"--skip {name}" for name in ("dead-memory", "read-only"))  # they want a GPU to run on


def build(options: str) -> Trace:
    result = run(f"build net.gtr -o out.gtr --json {PASSES_OFF} {options}")
    assert result.exit_code == 0, result.stderr
    return Trace.read("out.gtr")


def test_a_folder_gives_what_single_files_give() -> None:
    from_folder = build("--param weights")
    single = build(" ".join(f"--param w{i}=weights/w{i}.npy" for i in range(PARAMETERS)))
    assert np.array_equal(from_folder.actions, single.actions)
    assert from_folder.image == single.image
    assert np.float32(10).tobytes() * 6 in from_folder.image
    assert [slot.name for slot in from_folder.slots] == ["x", "y"]


def test_what_has_no_value_is_told_after_a_build() -> None:
    result = run(f"build net.gtr -o out.gtr {PASSES_OFF} --param w1=weights/w1.npy")
    last = result.stdout.splitlines()[-1]
    assert last == "inputs required at replay: x, w0, w2, w3, w4, w5, w6, w7, ... (11 in all)"
    np.save("weights/x.npy", np.zeros((2, 3), np.float32))
    assert refused("build net.gtr -o new.gtr --param weights").startswith("no parameter 'x'; there are: w0, ")
    Path("weights/x.npy").unlink()
    result = run(f"build net.gtr -o out.gtr {PASSES_OFF} --param weights")
    assert result.stdout.splitlines()[-1] == "inputs required at replay: x"


@pytest.mark.parametrize(
    ("options", "lacking"),
    [
        ("", "x (--input) and w0, w1, w2, w3, w4, w5, w6, w7, ... (11 in all) (--param)"),
        ("--param weights", "x (--input)"),
        (
            "--input x=weights/w1.npy --param w3=weights/w3.npy",
            "w0, w1, w2, w4, w5, w6, w7, w8, ... (10 in all) (--param)",
        ),
    ],
)
def test_a_replay_without_values_names_them(options: str, lacking: str) -> None:
    sentence = refused(f"replay net.sgtr --key pub.pem {options}")
    assert sentence.startswith(f"net.sgtr: no value for {lacking}: give SLOT=FILE.npy for each, or ")


def test_bad_folders() -> None:
    Path("empty").mkdir()
    assert refused("build net.gtr -o out --param empty") == "empty: no .npy file in this folder"
    twice = refused("replay net.sgtr --key pub.pem --param weights --param w2=weights/w1.npy")
    assert twice == "parameter 'w2' is given twice: weights/w2.npy and weights/w1.npy"
    np.save("weights/w2.npy", np.zeros((3, 3), np.float32))
    wrong = refused("build net.gtr -o out --param weights")
    assert wrong == "weights/w2.npy: shape for slot w2: expected (2, 3), found (3, 3)"


class Touch:
    """Makes a file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("ran"),)


def test_pickled_objects_are_not_loaded() -> None:
    np.save("weights/w2.npy", np.array([Touch()], object), allow_pickle=True)
    for command in ("build net.gtr -o out --param weights", "replay net.sgtr --key pub.pem --param weights"):
        assert refused(command).startswith("weights/w2.npy: ")
    assert not Path("ran").exists()


def test_a_trace_that_is_not_verified_is_left_to_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says why it refuses; what values are lacking does not matter then."""

    def device(*_: Any, **__: Any) -> None:
        raise GramophoneError("the device was asked")

    monkeypatch.setattr("host_tools.runners.run", device)
    data = bytearray(Path("net.sgtr").read_bytes())
    data[-20] ^= 1
    Path("net.sgtr").write_bytes(data)
    assert refused("replay net.sgtr --key pub.pem") == "the device was asked"


def test_names_in_a_sentence() -> None:
    assert listed([]) == "none"
    assert listed("abc") == "a, b, c"
    assert listed("abcd", most=3) == "a, b, c, ... (4 in all)"


def test_memory_that_a_trace_needs() -> None:
    """Pages that are mapped or hold the image count once, wherever and however often they are mapped."""
    assert memory_bytes(trace()) == (PAGES + 1) * PAGE_BYTES
    rows = [
        action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=count, frame=frame, address_space=0, va_page=page)
        for page, count, frame in [(0, 4, 8), (9, 4, 10), (20, 2, 0), (30, 3, 8)]
    ]
    image = bytes(PAGE_BYTES + 1)
    assert memory_bytes(trace().with_(actions=np.array(rows, ACTION_DTYPE), image=image)) == 8 * PAGE_BYTES
