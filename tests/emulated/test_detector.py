# SPDX-License-Identifier: BSD-2-Clause
"""A detector whose boxes come out of the secure world, and are those of ncnn's own layer.

Its recording is committed (`python -m tests.support.detector` makes it anew); tests/qemu/test_detector.py records.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.model.equivalence import difference
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
from host_tools.runners import firmware
from signing.key_files import private_pem
from signing.sign import sign_trace
from tests.support import detector
from tests.support.bare_metal import COMPILER, require
from tests.support.signing_samples import ES256
from trace_format.operators import Operator, used
from trace_format.trace import Trace

PICTURES = (2, 12)
OPERATORS = [Operator.COPY, Operator.YOLOV3_DETECTION_OUTPUT]


@pytest.fixture(scope="module")
def raw() -> Trace:
    return Trace.read(detector.RAW)


@pytest.fixture(scope="module")
def signed(raw: Trace) -> bytes:
    return sign_trace(build(raw).build(), ES256)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signed: bytes) -> None:
    """A working folder with the signed trace, pictures and what ncnn finds in them."""
    monkeypatch.chdir(tmp_path)
    Path("net.sgtr").write_bytes(signed)
    Path("pub.pem").write_bytes(ES256.public.pem())
    Path("key.pem").write_bytes(private_pem(ES256.key))
    for seed in PICTURES:
        np.save(f"data{seed}.npy", detector.picture(seed)[0])
        np.save(f"boxes{seed}.npy", detector.found_by_ncnn(seed))


def run(line: str) -> Result:
    return CliRunner().invoke(main, shlex.split(line), catch_exceptions=False)


@pytest.mark.parametrize(
    ("seed", "runner"),
    [
        pytest.param(PICTURES[0], "vgpu", marks=pytest.mark.exhaustive),  # the same core as in Unicorn
        (PICTURES[1], "vgpu"),
        (PICTURES[0], "unicorn"),
    ],
)
def test_boxes_are_ncnns(seed: int, runner: str) -> None:
    """As many as ncnn finds, within 1e-5; the pictures are not that of the recording."""
    if runner == "unicorn":
        require(COMPILER, "gcc-aarch64-linux-gnu")
    result = run(
        f"replay net.sgtr --key pub.pem --input data=data{seed}.npy -o boxes=out.npy --tolerance 1e-5 "
        f"--expect boxes=boxes{seed}.npy --on {runner}"
    )
    assert result.exit_code == 0, result.output
    expected = np.load(f"boxes{seed}.npy")
    assert len(expected) > 1
    assert np.load("out.npy").shape == expected.shape
    assert f"boxes: float32 [{len(expected)}, 6] -> out.npy\n  label    score     left " in result.stdout
    label, score, *_ = expected[0]
    assert f"\n  {int(label):5} {score:8.4f} " in result.stdout


def test_a_picture_without_anything_has_no_boxes() -> None:
    np.save("nothing.npy", np.zeros(detector.SHAPE, np.float32))
    result = run("replay net.sgtr --key pub.pem --input data=nothing.npy -o boxes=out.npy")
    assert result.exit_code == 0, result.output
    assert np.load("out.npy").shape == (0, 6)
    assert "\n  no boxes\n" in result.stdout


def test_what_is_signed_is_said() -> None:
    result = run("verify trace net.sgtr --key pub.pem")
    assert "\noperators        copy, yolov3_detection_output, with " in result.stdout
    assert "slot             output boxes float32[300, 6] at " in result.stdout
    assert "internal" not in result.stdout
    assert run("lint net.sgtr").stdout.count("error ") == 0


def test_firmware_without_the_operators_refuses() -> None:
    """And the message says what it lacks."""
    require(COMPILER, "gcc-aarch64-linux-gnu")
    plain = firmware.build(ES256.public)
    result = run(
        f"replay net.sgtr --key pub.pem --input data=data{PICTURES[0]}.npy --on unicorn --firmware {plain.folder}"
    )
    assert result.exit_code == 1
    assert 'operators = ["copy", "yolov3_detection_output"]' in result.output


@pytest.mark.sampled(3)
@pytest.mark.parametrize("step", PASSES)
def test_a_pass_keeps_the_boxes(step: str, raw: Trace) -> None:
    inputs = {"data": detector.picture(PICTURES[0])[0]}
    changed = PASSES[step](raw)
    assert used(changed.actions) == OPERATORS
    assert difference(raw, changed, inputs) == ""
