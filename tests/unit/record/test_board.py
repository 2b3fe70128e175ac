# SPDX-License-Identifier: BSD-2-Clause
"""What is sent to a board that records, and what it may send back."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.demo import PARAM, WEIGHTS
from host_tools.machine.errors import RecordError
from host_tools.record.board.kit import KIT_VERSION, packed
from host_tools.record.board.result import board_trace
from tests.support import json_schemas
from tests.support.archives import extract
from tests.support.bare_metal import require

SPEC = {
    "version": KIT_VERSION,
    "name": "net",
    "shapes": {"data": [1, 2, 2]},
    "tolerance": 1e-4,
    "param_sha256": "",
    "weights_sha256": "",
}


def result(tmp_path: Path, files: dict[str, bytes]) -> Path:
    path = tmp_path / "result.tar"
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    path.write_bytes(stream.getvalue())
    return path


def test_a_kit(tmp_path: Path) -> None:
    """Three runs: two inputs, and other weights with the first."""
    require("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")
    out = tmp_path / "kit.tar"
    words = ["record", "pi-kit", str(PARAM), str(WEIGHTS), "--shape", "data=1x28x28", "-o", str(out), "--json"]
    said = CliRunner().invoke(main, words, catch_exceptions=False)
    assert said.exit_code == 0, said.output
    json_schemas.check("record pi-kit", json.loads(said.stdout))
    with tarfile.open(out) as archive:
        extract(archive, tmp_path)
    kit = tmp_path / "lenet-kit"
    weights = [(kit / f"{run}/net.bin").read_bytes() for run in (1, 2, 3)]
    inputs = [(kit / f"{run}/input0").read_bytes() for run in (1, 2, 3)]
    assert weights[0] == weights[1] != weights[2]
    assert inputs[0] == inputs[2] != inputs[1]
    assert (kit / "2/inputs").read_text() == "--input data=2/input0=1x28x28\n"
    assert (kit / "run.sh").stat().st_mode & 0o111
    assert (kit / "recorder.so").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "kit.json is missing; did run.sh end with an error"),
        ({"kit.json": b"{"}, "kit.json is not what `record pi-kit` wrote"),
        ({"kit.json": b"[]"}, "kit.json is not what"),
        ({"kit.json": json.dumps({**SPEC, "shapes": 3}).encode()}, "kit.json is not what"),
        ({"kit.json": json.dumps({**SPEC, "version": 99}).encode()}, "expected a kit of version 1, found 99"),
        ({"kit.json": json.dumps(SPEC).encode()}, "does not fit the files"),
        (
            {"kit.json": json.dumps(SPEC).encode(), "out/1/report": b"ncnn 1\n"},
            "run 1: out/board is missing",
        ),
        (
            {"kit.json": json.dumps(SPEC).encode(), "out/1/report": b"ncnn 1\n", "out/board": b"Linux\nPi\n"},
            "no driver version",
        ),
        (
            {
                "kit.json": json.dumps(SPEC).encode(),
                "out/1/report": b"vulkan 1 driver 0x6400007\nncnn 1\n",
                "out/board": b"Linux\nPi\n",
            },
            "out/1/capture is missing",
        ),
        (
            {
                "kit.json": json.dumps(SPEC).encode(),
                "out/1/report": b"vulkan 1 driver 0x6400007\nncnn 1\n",
                "out/board": b"Linux\nPi\n",
                "out/1/capture": b"GRAM",
            },
            "run 1: capture at offset 0x0: the capture was cut off in its header",
        ),
    ],
    ids=[
        "nothing", "torn spec", "a list", "shapes", "version", "no report", "no board", "no driver", "no capture",
        "torn capture",
    ],
)  # fmt: skip
def test_results_that_are_none(files: dict[str, bytes], message: str, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=message) as caught:
        board_trace(result(tmp_path, files))
    assert "result.tar" in str(caught.value)


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "no.tar"
    path.write_bytes(b"no archive")
    said = CliRunner().invoke(main, ["record", "pi", str(path), "-o", str(tmp_path / "out.gtr")])
    assert said.exit_code == 2
    assert "expected the result.tar of a board" in said.output
    assert not (tmp_path / "out.gtr").exists()


def test_a_packed_folder() -> None:
    with tarfile.open(fileobj=io.BytesIO(packed({"a": b"1", "b/c": b"23"}, "kit"))) as archive:
        assert {member.name: member.size for member in archive} == {"kit/a": 1, "kit/b/c": 2}
