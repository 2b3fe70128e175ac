# SPDX-License-Identifier: BSD-2-Clause
"""`replay --until` and `--compare`: memory after a job, and the first job that differs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from host_tools.accesses import job_buffers
from host_tools.cli import main
from host_tools.demo import RAW
from host_tools.model.interpreter import interpreter
from host_tools.passes.pipeline import KEEP_INPUTS, build
from tests.support.replayer_samples import KEY, signed
from tests.support.small_jobs import BYTES, CONSTANTS, INPUT, OUT, OUTPUT, SCRATCH, small
from trace_format.errors import GramophoneError
from trace_format.trace import Trace

TWICE = ("add", INPUT, INPUT, SCRATCH), ("add", SCRATCH, SCRATCH, OUTPUT)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a signed trace of two jobs, and its key."""
    monkeypatch.chdir(tmp_path)
    trace = small(*TWICE)
    trace.notes["calls"] = ["first (Add)", "second (Add)"]
    Path("net.sgtr").write_bytes(signed(trace))
    Path("pub.pem").write_bytes(KEY.pem())
    np.save("x.npy", np.arange(16, dtype=trace.slots[0].numpy_dtype).reshape(trace.slots[0].shape))
    return tmp_path


def run(*words: str) -> Result:
    name = small(*TWICE).slots[0].name
    line = ["replay", "net.sgtr", "--key", "pub.pem", "--input", f"{name}=x.npy", *words]
    return CliRunner().invoke(main, line, catch_exceptions=False)


def test_memory_after_each_job() -> None:
    trace = small(*TWICE)
    value = np.arange(16, dtype="<i4").view(trace.slots[0].numpy_dtype).reshape(trace.slots[0].shape)
    first = job_buffers.after(trace, {trace.slots[0].name: value}, 0)
    assert [(piece.job, piece.address, len(piece.data)) for piece in first] == [(0, SCRATCH, BYTES)]
    both = job_buffers.after(trace, {trace.slots[0].name: value}, 1)
    assert [(piece.job, piece.address) for piece in both] == [(0, SCRATCH), (1, OUTPUT)]
    assert np.frombuffer(both[1].data, "<i4").tolist() == [4 * number for number in range(16)]
    with interpreter(trace) as machine:
        outputs = machine.run({trace.slots[0].name: value})
    assert both[1].data == outputs[OUT.name].tobytes()


def test_a_job_that_is_not_there() -> None:
    with pytest.raises(GramophoneError, match="there is no job 2: the trace has 2, from 0 on"):
        job_buffers.after(small(*TWICE), {}, 2)


def test_dump_writes_files_by_layer(here: Path) -> None:
    done = run("--until", "1", "--dump", "after", "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(Path("after/index.json").read_text(encoding="utf-8"))
    assert rows == json.loads(done.stdout)["buffers"]
    assert [row["file"] for row in rows] == [
        f"job0000-first_Add-{SCRATCH:#010x}.npy",
        f"job0001-second_Add-{OUTPUT:#010x}.npy",
    ]
    assert all(np.load(here / "after" / row["file"]).nbytes == BYTES for row in rows)
    again = run("--until", "1", "--dump", "after")
    assert (again.exit_code, again.stderr) == (2, "error: --dump after: expected a new or an empty folder\n")


def test_the_first_job_that_differs_is_named(here: Path) -> None:
    other = small(TWICE[0], ("add", SCRATCH, INPUT, OUTPUT))
    Path("other.gtr").write_bytes(other.build())
    done = run("--compare", "other.gtr", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert (found["compared"], found["difference"]["job"], found["difference"]["layer"]) == (1, 1, "second (Add)")
    assert found["difference"]["different_bytes"] > 0
    told = run("--compare", "other.gtr")
    assert told.stdout.startswith("first difference: job 1 (second (Add)), in other.gtr job 1: ")


def test_of_other_amounts_there_is_no_difference_of_values(here: Path) -> None:
    Path("other.gtr").write_bytes(small(TWICE[0], ("keep", INPUT, CONSTANTS, OUTPUT)).build())
    done = run("--compare", "other.gtr")
    assert (done.exit_code, done.stdout) == (
        1,
        "the first 1 jobs that write are the same; there are 2, in other.gtr 1\n",
    )


def test_a_recording_and_what_is_built_of_it_are_the_same() -> None:
    """Other carve-outs, other planning; jobs that write nothing are left out."""
    raw = Trace.read(RAW)
    (slot,) = (slot for slot in raw.slots if slot.kind.name == "INPUT")
    value = {slot.name: np.random.default_rng(3).random(slot.shape, "f4")}
    one, two = (job_buffers.digests(trace, value) for trace in (raw, build(raw, skip=KEEP_INPUTS)))
    assert len(one) > 10
    assert [(digest.bytes, digest.sha256) for digest in one] == [(digest.bytes, digest.sha256) for digest in two]


def test_a_trace_that_is_refused(here: Path) -> None:
    data = bytearray(Path("net.sgtr").read_bytes())
    data[-1] ^= 1
    Path("net.sgtr").write_bytes(data)
    done = run("--until", "0", "--dump", "after")
    assert done.exit_code in (1, 2)
    assert not Path("after").exists()


WRONG = {
    "--until 1": "--until requires --dump",
    "--dump after": "--dump requires --until",
    "--until 1 --dump after --compare net.sgtr": "--until cannot be combined with --compare",
    "--until 1 --dump after --on qemu": "--until cannot be used with --on qemu",
    "--compare net.sgtr --repeat 2": "--compare stops at jobs and takes no --repeat",
}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_use(here: Path, line: str) -> None:
    done = run(*line.split())
    assert done.exit_code == 2
    assert WRONG[line] in done.stderr
