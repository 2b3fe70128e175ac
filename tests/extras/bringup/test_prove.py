# SPDX-License-Identifier: BSD-2-Clause
"""`prove`: what is planted in a job is named by job, page and word, and how; without a plant nothing is."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools.extras.bringup import compare
from host_tools.extras.bringup.compare import BESIDE, LAST_BITS, NOT_WRITTEN, OTHER
from host_tools.extras.bringup.probes import probe, written_pages
from host_tools.extras.try_gpu.pack import GPUS, NETWORKS
from host_tools.runners import mailbox, vgpu
from host_tools.runners.buffers import bind
from host_tools.support.tensors import npy
from signing.delivery import Delivery
from tests.extras.bringup.lenet import X, given, run
from tests.support.planted_gpu import Kind, Plant, planted
from tests.support.replayer_samples import KEY
from tests.support.replayer_samples import signed as signed_sample
from tests.support.small_jobs import INPUT, OUTPUT, SCRATCH, small
from trace_format import packing
from trace_format.errors import GramophoneError
from trace_format.schema.mailbox import MAILBOX_RESPONSE_AT
from trace_format.schema.report import Status
from trace_format.trace import Trace

TWICE = ("add", INPUT, INPUT, SCRATCH), ("add", SCRATCH, SCRATCH, OUTPUT)


def prove(folder: Path, plant: Plant, on: str = "vgpu") -> tuple[int, Mapping[str, Any], str]:
    """Exit status, result and text of `prove run` on a GPU with a difference."""
    words = ("prove", "run", folder / "probe.sgtr", "--key", folder / "pub.pem", *given(folder), "--on", on)
    with planted(plant):
        done = run(*words, "--json")
    return done.exit_code, json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("on", ["vgpu", "unicorn"])
def test_nothing_is_named_without_a_plant(lenet: Path, on: str) -> None:
    status, found, error = prove(lenet, Plant(), on)
    assert (status, found["first"], found["jobs"]) == (0, None, 14), error
    assert all(page["sha256"] == page["expected_sha256"] and not page["kind"] for page in found["pages"])


KINDS = {
    Kind.LAST_BITS: LAST_BITS,
    Kind.OTHER_VALUE: OTHER,
    Kind.PAGE_NOT_WRITTEN: NOT_WRITTEN,
    Kind.BESIDE: BESIDE,
    Kind.CLEAN_LOST: NOT_WRITTEN,
}
PLANTS = [
    *(Plant(Kind.LAST_BITS, job) for job in (0, 1, 5, 13)),
    *(Plant(Kind.OTHER_VALUE, job) for job in (2, 4, 9)),
    *(Plant(Kind.PAGE_NOT_WRITTEN, job) for job in (1, 3, 7, 12)),
    *(Plant(Kind.BESIDE, job) for job in (6, 10)),
    *(Plant(Kind.CLEAN_LOST, job) for job in (0, 8, 11)),
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.kind.name} {plant.at}")
def test_what_is_planted_is_named(lenet: Path, plant: Plant) -> None:
    status, found, error = prove(lenet, plant)
    assert status == 1, error
    first = found["first"]
    assert (first["job"], first["kind"]) == (plant.at, KINDS[plant.kind])
    own = [page for page in found["pages"] if page["job"] == plant.at]
    assert all(page["kind"] is None for page in found["pages"] if page["job"] < plant.at)
    wrong = [page for page in own if page["kind"]]
    assert first["pages"] == len(wrong)
    word = first["first"]
    assert wrong[0]["address"] <= word["address"] < wrong[0]["address"] + 4096
    if plant.kind in (Kind.OTHER_VALUE, Kind.BESIDE):
        assert (first["pages"], first["words"]) == (1, 1)
        flipped = 0x4010_0000 if plant.kind is Kind.OTHER_VALUE else 0x00AA_0000
        assert word["expected"] ^ word["found"] == flipped
    if plant.kind is Kind.LAST_BITS:
        assert word["expected"] ^ word["found"] == 1
    if plant.kind is Kind.PAGE_NOT_WRITTEN:
        assert len(wrong) == 1
        assert word["found"] == word["before"]
    if plant.kind is Kind.CLEAN_LOST:
        assert len(wrong) == len(own)


def test_the_words_on_a_plant(lenet: Path) -> None:
    words = ("prove", "run", lenet / "probe.sgtr", "--key", lenet / "pub.pem", *given(lenet))
    with planted(Plant(Kind.OTHER_VALUE, 4)):
        done = run(*words)
    assert done.exit_code == 1
    assert (
        "first difference: job 4 (pool2 (Pooling)), other value: 1 words in 1 pages, the first at 0x"
        in done.stdout
    )
    assert "pages of later jobs that differ, perhaps because of it: " in done.stdout


def test_a_device_that_does_not_get_through(lenet: Path) -> None:
    status, found, _ = prove(lenet, Plant(Kind.NO_IRQ))
    assert (status, found["jobs"], found["first"]) == (1, 0, None)
    assert "an interrupt did not come in time, action 70" in found["error"]


def test_an_interrupt_that_is_missing_once(lenet: Path) -> None:
    status, found, _ = prove(lenet, Plant(Kind.IRQ_MISSING, 3))
    assert (status, found["first"]) == (0, None)
    assert found["warnings"] == ["the device got through only after 1 retries: an attempt diverged"]


def answered(folder: Path, trace: Trace, outputs: Mapping[str, Any]) -> bytes:
    """A mailbox that a firmware has answered."""
    buffers = bind(trace, {"data": X})
    data = (folder / "probe.sgtr").read_bytes()
    memory = bytearray(mailbox.layout(data, buffers).size)
    places = mailbox.request(memoryview(memory), data, buffers, 1)
    for row, at in zip(buffers.rows, places.buffers_at, strict=True):
        if row.slot.name in outputs:
            memory[at : at + row.nbytes] = outputs[row.slot.name].tobytes()
    report = dict.fromkeys(packing.unpack("report", bytes(packing.size_of("report"))), 0)
    report["status"] = int(Status.OK)
    answer = packing.pack("mailbox_response", {"replays": 1, "report": report})
    memory[MAILBOX_RESPONSE_AT : MAILBOX_RESPONSE_AT + len(answer)] = answer
    return bytes(memory)


def test_what_came_back(lenet: Path, tmp_path: Path) -> None:
    probed = Trace.parse((lenet / "probe.gtr").read_bytes())
    folder = tmp_path / "back"
    folder.mkdir()
    words = ["replay", lenet / "probe.sgtr", "--key", lenet / "pub.pem", *given(lenet)]
    for slot in probed.slots[1:]:
        words += ["-o", f"{slot.name}={folder / slot.name}.npy"]
    assert run(*words).exit_code == 0
    read = "prove", "read", lenet / "probe.gtr"
    same = run(*read, folder, *given(lenet))
    assert (same.exit_code, same.stdout) == (0, "all 14 jobs wrote what the virtual GPU writes, in 27 pages\n")
    outputs = {slot.name: np.load(folder / f"{slot.name}.npy") for slot in probed.slots[1:]}
    image = tmp_path / "mailbox.bin"
    image.write_bytes(answered(lenet, probed, outputs))
    assert run(*read, image, *given(lenet)).stdout == same.stdout
    name = "job0005-00f20000"
    outputs[name][7] ^= 0x80
    np.save(folder / f"{name}.npy", outputs[name])
    other = run(*read, folder, *given(lenet))
    assert other.exit_code == 1
    assert "first difference: job 5 (fc1 (InnerProduct)), other value: " in other.stdout
    assert "the first at 0xf20004: expected" in other.stdout
    image.write_bytes(answered(lenet, probed, outputs))
    assert run(*read, image, *given(lenet)).stdout == other.stdout


def result_tar(files: Mapping[str, bytes]) -> bytes:
    """The archive that the script of try-gpu makes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"result/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return stream.getvalue()


@pytest.mark.parametrize("gpu", GPUS)
def test_a_result_of_try_gpu(gpu: str, tmp_path: Path) -> None:
    """The probe in its archive, and what came back: the file as it is, or with one word changed."""
    probe = NETWORKS / gpu / "jobs.gtr"
    signed = tmp_path / "jobs.sgtr"
    signed.write_bytes(signed_sample(Trace.read(probe)))
    outputs = vgpu.replay(vgpu.REQUEST(Delivery(signed.read_bytes()), KEY)).outputs
    files = {f"jobs.{name}.npy": npy(array) for name, array in outputs.items()}
    result = tmp_path / "result.tar"
    result.write_bytes(result_tar({"board.txt": b"Raspberry Pi", **files}))
    done = run("prove", "read", signed, result)
    assert (done.exit_code, done.stdout[:22]) == (0, "all 14 jobs wrote what"), done.output
    changed = next(name for name in files if name.startswith("jobs.job0005-"))
    result.write_bytes(result_tar({**files, changed: files[changed][:-4] + b"\1\2\3\4"}))
    done = run("prove", "read", signed, result)
    assert done.exit_code == 1
    assert done.stdout.startswith("first difference: job 5"), done.stdout
    for data, said in (
        (result_tar({**files, changed: files[changed][:200]}), f"{changed}: a damaged .npy file"),
        (result_tar(files)[:50000], "result.tar: "),
        (result_tar({"lenet.prob.npy": b""}), "jobs.prob.npy: expected it in the archive, found none; is it of"),
        (
            result_tar({"jobs.txt": b"error: REGISTER, action 5"}),
            "found none; the board says: error: REGISTER, action 5",
        ),
    ):
        result.write_bytes(data)
        done = run("prove", "read", signed, result)
        assert done.exit_code == 2, done.output
        assert done.stderr.startswith(f"error: {result}: ")
        assert said in done.stderr


def test_what_is_no_answer(lenet: Path, tmp_path: Path) -> None:
    read = "prove", "read", lenet / "probe.gtr"
    file = tmp_path / "some"
    for data, said in (
        (
            b"short",
            "too small for a mailbox: expected a folder of SLOT.npy files, the result.tar of try-gpu, or at least "
            "12288 bytes, found 5",
        ),
        (bytes(20000), "no mailbox with an answer: "),
    ):
        file.write_bytes(data)
        done = run(*read, file, *given(lenet))
        assert done.exit_code == 2
        assert done.stderr.startswith(f"error: {file}: {said}")
    folder = tmp_path / "few"
    folder.mkdir()
    np.save(folder / "prob.npy", np.zeros(10, np.float32))
    done = run(*read, folder, *given(lenet))
    assert (done.exit_code, done.stderr) == (
        2,
        "error: output job0000-00f20000: the board's pages of job 0 are missing\n",
    )
    np.save(folder / "job0000-00f20000.npy", np.zeros(10, np.uint8))
    done = run(*read, folder, *given(lenet))
    assert done.exit_code == 2
    assert "job0000-00f20000.npy: shape for slot job0000-00f20000: expected (4096,), found (10,)" in done.stderr


def test_what_is_no_probe(lenet: Path, tmp_path: Path) -> None:
    done = run("prove", "read", lenet / "net.gtr", tmp_path, *given(lenet))
    assert done.exit_code == 2
    assert "expected a probe of `prove make`, found a trace without pages of jobs" in done.stderr
    done = run("prove", "make", lenet / "probe.gtr", *given(lenet), "-o", tmp_path / "again.gtr")
    assert done.exit_code == 2
    assert "a probe already" in done.stderr
    done = run("prove", "make", lenet / "net.gtr", "-o", tmp_path / "again.gtr")
    assert done.exit_code == 2
    assert "no value for data: give --input" in done.stderr
    done = run("prove", "make", lenet / "net.gtr", *given(lenet), "--only", "3-1", "-o", tmp_path / "again.gtr")
    assert done.exit_code == 2
    assert "expected FIRST-LAST" in done.stderr
    assert not (tmp_path / "again.gtr").exists()


def test_some_jobs(lenet: Path, tmp_path: Path) -> None:
    words = tmp_path / "words"
    made = run(
        "prove",
        "make",
        lenet / "net.gtr",
        *given(lenet),
        "--only",
        "2-3",
        "-o",
        tmp_path / "p.gtr",
        "--words",
        words,
    )
    assert made.exit_code == 0, made.output
    slots = Trace.parse((tmp_path / "p.gtr").read_bytes()).slots[1:]
    assert {slot.name[:7] for slot in slots} == {"prob", "job0002", "job0003"}
    assert words.read_text().split() == [w for s in slots for w in ("--output", f"{s.name}={s.name}.npy")]


def test_more_pieces_than_outputs() -> None:
    trace = small(*(TWICE * 200))
    with pytest.raises(
        GramophoneError, match=r"expected at most 256; make a probe of fewer jobs, as --only 0-253"
    ):
        probe(trace, {job: [(0, SCRATCH >> 12)] for job in range(400)})


def test_pages_by_job() -> None:
    trace = small(*TWICE)
    assert written_pages(trace, {}) == {0: [(0, SCRATCH >> 12)], 1: [(0, OUTPUT >> 12)]}


def test_kinds_of_words() -> None:
    def words(*values: float) -> Any:
        return np.array(values, "<f4").view("<u4")

    data, before = words(1, 1, 1, 1, 3e-39), words(0, 0, 5, 0, 0)
    found = words(1, np.nextafter(np.float32(1), np.float32(2)), 5, np.nan, 4e-39)
    written = np.array([True, True, True, True, True])
    codes = compare.kinds_of(found, data, before, written)
    assert [compare.KINDS[code - 1] if code else None for code in codes] == [
        None,
        LAST_BITS,
        NOT_WRITTEN,
        OTHER,
        OTHER,
    ]
    assert compare.kinds_of(found, data, before, ~written).tolist()[1:] == [compare.KINDS.index(BESIDE) + 1] * 4
