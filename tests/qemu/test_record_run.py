# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record run`: a C program that calls Vulkan, recorded, replayed and refused."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.machine.root import RecordRoot
from host_tools.model.equivalence import difference
from host_tools.model.interpreter import Interpreter
from host_tools.passes.list_passes import list_jobs
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
from host_tools.runners import run as replay_on
from host_tools.support.gpu_folders import DEFAULT_GPU
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.support.guest_programs import SHADER, compile_vadd, cross_compile, record, refused
from trace_format.policy import PolicyError
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

COUNT = 3000  # three pages an array, and no multiple of the work group


@pytest.fixture(scope="module")
def recorded(vadd: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """One recording by the command, and what the command said."""
    output = tmp_path_factory.mktemp("recorded") / "vadd.raw.gtr"
    return record("-o", output, "--json", "--", vadd, SHADER, COUNT), output


@pytest.fixture
def replayed(recorded: tuple[Result, Path]) -> Iterator[Interpreter]:
    device = Interpreter(Trace.read(recorded[1]))
    device.run()
    yield device
    device.close()


def sums() -> bytes:
    """What vadd computes."""
    index = np.arange(COUNT, dtype=np.float32)
    return (np.float32(1000) - index / 2).tobytes()


def gpu_memory(device: Interpreter) -> bytes:
    """All pages that the GPU sees, in the order of its addresses."""
    pages = sorted(device.tables.mapped().items())
    return b"".join(device.memory[at : at + PAGE_BYTES].tobytes() for _, at in pages)


def test_a_vulkan_program_is_recorded(recorded: tuple[Result, Path], vadd: Path) -> None:
    result, output = recorded
    found = json.loads(result.stdout)
    trace = Trace.read(output)
    assert found["ok"]
    assert found["name"] == trace.meta["name"] == vadd.name
    assert found["jobs"] == trace.jobs == 1
    assert found["trace_bytes"] == output.stat().st_size
    assert trace.raw
    assert trace.slots == []
    assert result.stderr == f"vadd: device: V3D 4.2.14.0\nvadd: 0 of {COUNT} sums are wrong\n"


def test_the_replay_computes_the_sums_anew(recorded: tuple[Result, Path], replayed: Interpreter) -> None:
    assert sums() not in Trace.read(recorded[1]).image
    assert sums() in gpu_memory(replayed)


def test_what_is_built_from_it_computes_the_same(recorded: tuple[Result, Path], tmp_path: Path) -> None:
    built = tmp_path / "vadd.gtr"
    result = CliRunner().invoke(main, ["build", str(recorded[1]), "-o", str(built)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    device = Interpreter(Trace.read(built))
    device.run()
    assert sums() in gpu_memory(device)
    device.close()
    signer = FileSigner(generate(Algorithm.ES256))
    replay = replay_on("vgpu", Delivery(sign_trace(built.read_bytes(), signer)), signer.public, repeat=3)
    assert replay.ok, replay.error
    assert replay.jobs == 1


@pytest.mark.exhaustive  # a Mali's: test_record_mali.py; a network's: test_networks.py
def test_recorded_twice_it_is_the_same_file(recorded: tuple[Result, Path], vadd: Path, tmp_path: Path) -> None:
    record("-o", tmp_path / "again.gtr", "--", vadd, SHADER, COUNT)
    assert (tmp_path / "again.gtr").read_bytes() == recorded[1].read_bytes()


@pytest.mark.exhaustive  # without the driver, and with shapes of all kinds: tests/vgpu/test_transfer_lists.py
@pytest.mark.parametrize("gpu", [DEFAULT_GPU, "v3d71"])
def test_copies_fills_and_updates_of_buffers(gpu: str, root: RecordRoot, tmp_path: Path) -> None:
    """By items of 1, 2 and 4 bytes: right in the guest; compute jobs once built, which leave the same bytes."""
    words = ("-o", tmp_path / "raw.gtr", "--gpu", gpu)
    result = record(*words, "--", compile_vadd(root, tmp_path, "copies"), SHADER, COUNT)
    assert "copies: 0 of 28384 bytes are wrong\n" in result.stderr
    raw = Trace.read(tmp_path / "raw.gtr")
    lists = [job for job in list_jobs(raw) if job.writes]
    assert {job.transfer.item for job in lists if job.transfer} == {1, 2, 4}
    assert raw.jobs == 1 + len(lists) == 18
    with_lists = raw
    for name in itertools.takewhile(lambda name: name != "no-op-lists", PASSES):
        with_lists = PASSES[name](with_lists)
    with_jobs = PASSES["no-op-lists"](with_lists)
    assert difference(with_lists, with_jobs, {}) == ""
    built = build(raw)
    assert built.jobs == 18
    assert difference(with_jobs, built, {}, replays=2) == ""
    signer = FileSigner(generate(Algorithm.ES256))
    signed = sign_trace(built.build(), signer)
    for runner in ("vgpu", "qemu"):
        replay = replay_on(runner, Delivery(signed), signer.public, repeat=2)
        assert replay.ok, replay.error
    with pytest.raises(PolicyError, match=r"core0\.(CLE_CT|PTB_)"):
        sign_trace(build(raw, skip=["no-op-lists"]).build(), signer)


def test_a_library_beside_the_program(root: RecordRoot, tmp_path: Path) -> None:
    """Needed and not given, it is named; given, the program runs, and is refused for its lack of GPU jobs."""
    library, program = tmp_path / "libanswer.so", tmp_path / "user"
    (tmp_path / "answer.c").write_text("int answer(void);\nint answer(void) { return 42; }\n")
    (tmp_path / "user.c").write_text(
        '#include <stdio.h>\nint answer(void);\nint main(void) { printf("it is %d\\n", answer()); return 0; }\n'
    )
    cross_compile(tmp_path / "answer.c", library, "-shared", "-fPIC", f"-Wl,-soname,{library.name}")
    cross_compile(tmp_path / "user.c", program, library)
    library_hidden = tmp_path / "hidden" / library.name
    library_hidden.parent.mkdir()
    library.rename(library_hidden)
    assert f"needs {library.name}, which is neither" in refused(tmp_path, "--", program)
    said = refused(tmp_path, "--file", library_hidden, "--", program)
    assert said == "no compute job reached the GPU; the program said: it is 42"


def test_a_program_that_fails_is_quoted(root: RecordRoot, vadd: Path, tmp_path: Path) -> None:
    busybox = root.tree / "usr/bin/busybox"
    said = refused(tmp_path, "--", busybox, "sh", "-c", "echo first; echo 'no luck' >&2; exit 3")
    assert said == "the guest's program failed with status 3: first | no luck"
    assert "usage: vadd SHADER.spv" in refused(tmp_path, "--", vadd)
    assert "gone.spv: cannot be opened" in refused(tmp_path, "--", vadd, "gone.spv")


def test_programs_that_cannot_run_there(root: RecordRoot, tmp_path: Path, vadd: Path) -> None:
    bad = tmp_path / "program"
    cases = {
        b"": f"{bad}: expected an ELF program",
        b"#!/bin/sh\nexit 0\n": f"{bad}: expected an ELF program",
        vadd.read_bytes()[:40]: f"{bad}: expected an ELF program",
        Path("/bin/sh").resolve().read_bytes(): f"{bad}: expected a program for aarch64, found EM_",
    }
    for content, message in cases.items():
        bad.write_bytes(content)
        assert refused(tmp_path, "--", bad).startswith(message)


def test_files_that_are_not_there(root: RecordRoot, tmp_path: Path, vadd: Path) -> None:
    gone = tmp_path / "gone"
    assert refused(tmp_path, "--", gone) == f"{gone}: No such file or directory"
    assert refused(tmp_path, "--file", gone, "--", vadd, SHADER) == f"{gone}: No such file or directory"
    assert refused(tmp_path, "--", tmp_path) == f"{tmp_path}: Is a directory"
    other = tmp_path / "vadd"
    other.write_bytes(b"another file")
    assert "have one name" in refused(tmp_path, "--file", other, "--", vadd, SHADER)
    result = record("-o", gone / "out", "--", vadd, SHADER, status=2)
    assert result.stderr == f"error: {gone / 'out'}: No such file or directory\n"
