# SPDX-License-Identifier: BSD-2-Clause
"""What `gramophone replay` shows of outputs, and compares them with; the device is a double."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.runners import replay
from signing.delivery import Delivery
from signing.sign import sign_trace
from tee_replayer.generator.status import Report, value_of
from tests.support.signing_samples import ES256
from trace_format.actions import MAP_READ, MAP_WRITE, Op, action, array_of
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

SIZE = 64 * PAGE_BYTES
SMALL = np.array([0.5, 1, -2], np.float32)
LARGE = np.arange(17, dtype=np.float32)
OUTPUTS = {"y": SMALL, "z": LARGE}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = [
        Slot(name, SlotKind.OUTPUT, DType.FLOAT32, array.shape, (4,), 256 * index, 0)
        for index, (name, array) in enumerate(OUTPUTS.items())
    ]
    rows = [
        action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=1, frame=8, address_space=0, va_page=0),
        action(Op.REPLAY_START),
        action(Op.JOB),
        action(Op.COPY_FROM_GPU, slot=0),
        action(Op.COPY_FROM_GPU, slot=1),
    ]
    trace = Trace("v3d42", array_of(rows), bytes(64), SIZE, SIZE, slots, meta={"name": "net"}).build()
    monkeypatch.chdir(tmp_path)
    Path("net.sgtr").write_bytes(sign_trace(trace, ES256))
    Path("pub.pem").write_bytes(ES256.public.pem())

    def device(_: str, delivery: Delivery, *_others: Any, **_options: Any) -> replay.ReplayResult:
        report = Report(value_of("OK"), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        return replay.result(report, "a device", dict(OUTPUTS), None, delivery, "v3d42")

    monkeypatch.setattr("host_tools.runners.run", device)


def run(options: str, status: int = 0) -> Result:
    done = CliRunner().invoke(
        main, ["replay", "net.sgtr", "--key", "pub.pem", *options.split()], catch_exceptions=False
    )
    assert done.exit_code == status, done.output
    return done


def lines(options: str, status: int = 0) -> list[str]:
    return run(options, status).stdout.splitlines()[1:]


def data(options: str, status: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(f"{options} --json", status).stdout)
    assert found["ok"] == (status == 0)
    return found


def test_small_outputs_are_printed() -> None:
    assert lines("") == ["y: float32 [3]", "  0.5 1 -2", "z: float32 [17]"]
    found = data("")["outputs"]
    assert found["y"]["values"] == [0.5, 1, -2]
    assert "values" not in found["z"]


def test_the_largest_values_with_their_names() -> None:
    Path("words.txt").write_text("half\none\n\x1b[2J\n")
    assert lines("--top 2 --labels words.txt") == [
        "y: float32 [3]",
        "       1            1  one",
        "       0          0.5  half",
        "z: float32 [17]",
        "      16           16",
        "      15           15",
    ]
    top = data("--top 9 --labels words.txt")["outputs"]["y"]["top"]
    assert [(row["index"], row["value"], row["label"]) for row in top] == [
        (1, 1, "one"),
        (0, 0.5, "half"),
        (2, -2, "\x1b[2J"),
    ]
    assert "\\x1b[2J" in run("--top 9 --labels words.txt").stdout


@pytest.mark.parametrize(
    ("wanted", "tolerance", "difference", "good"),
    [
        (SMALL, 0, 0, True),
        (SMALL + np.float32(0.25), 0.2, 0.25 / 1.75, True),
        (SMALL + np.float32(0.25), 0.1, 0.25 / 1.75, False),
        (np.array([0.5, 1, np.nan], np.float32), 1000, None, False),
        (np.array([0.5, 1, np.inf], np.float32), 1000, None, False),
        (np.zeros(3, np.float32), 1.5, 2, False),
    ],
)
def test_an_output_is_compared(
    wanted: np.ndarray[Any, Any], tolerance: float, difference: float | None, good: bool
) -> None:
    np.save("want.npy", wanted)
    options = f"--expect y=want.npy --tolerance {tolerance}"
    found = data(options, 0 if good else 1)["expected"]
    assert found["y"]["ok"] == good
    assert found["y"]["difference"] == (None if difference is None else pytest.approx(difference))
    assert (
        f"y: {'' if good else 'NOT '}as expected: differs from want.npy by" in lines(options, 0 if good else 1)[-1]
    )


def test_labels_that_fit_no_output() -> None:
    Path("words.txt").write_text("one\ntwo\n")
    done = run("--top 1 --labels words.txt", 2)
    assert done.stderr == "error: words.txt: expected 3 or 17 lines, one for each element of an output, found 2\n"
