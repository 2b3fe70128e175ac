# SPDX-License-Identifier: BSD-2-Clause
"""Debian's panfrost and Mesa's PanVK on the virtual Mali: recorded, replayed, refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from host_tools.machine.boot import GuestJob, boot
from host_tools.machine.errors import RecordError
from host_tools.machine.root import RecordRoot
from host_tools.model.interpreter import Interpreter, interpreter
from host_tools.passes.pipeline import build
from host_tools.record.program import GuestProgram, program_job
from host_tools.runners import run as replay_on
from host_tools.vgpu import VirtualGpu
from host_tools.vgpu.build import qemu_plugin
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.support.guest_programs import SHADER, record, refused
from tests.support.visible import visible
from trace_format import profile
from trace_format.actions import Op, actions_of
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

COUNT, TIMES = 3000, 3
GPU = profile.load("mali_g71")
DONE = 1  # status in a job's header (Linux panfrost_device.h)


@pytest.fixture(scope="module")
def recorded(vadd: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """One recording by the command, and what the command said."""
    output = tmp_path_factory.mktemp("recorded") / "vadd.raw.gtr"
    said = record("--gpu", "mali_g71", "-o", output, "--json", "--", vadd, SHADER, COUNT, TIMES)
    return said, output


@pytest.fixture(scope="module")
def trace(recorded: tuple[Result, Path]) -> Trace:
    return Trace.read(recorded[1])


@pytest.fixture(scope="module")
def built(recorded: tuple[Result, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("built") / "vadd.gtr"
    result = CliRunner().invoke(main, ["build", str(recorded[1]), "-o", str(path)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return path


@pytest.fixture
def replayed(trace: Trace) -> Iterator[Interpreter]:
    """The raw recording after three replays: the second and third begin at its replay start."""
    device = Interpreter(trace)
    for _ in range(3):
        device.run()
    yield device
    device.close()


def results() -> bytes:
    """What vadd adds, and the sums, as they lie in memory."""
    index = np.arange(COUNT, dtype=np.float32)
    parts = [index / 2, np.float32(1000) - index, np.float32(1000) - index / 2]
    return b"".join(part.tobytes() for part in parts)


def gpu_memory(device: Interpreter) -> bytes:
    """All pages that the GPU sees, in the order of its addresses."""
    return b"".join(content for _, content in sorted(visible(device).items()))


def writes(trace: Trace, register: str) -> list[int]:
    """The values that are written to a register."""
    index = GPU.register(register).index
    return [row.value for row in actions_of(trace.actions) if row.op == Op.REG_WRITE and row.register == index]


def test_a_vulkan_program_is_recorded(recorded: tuple[Result, Path], trace: Trace) -> None:
    result, output = recorded
    found = json.loads(result.stdout)
    assert found["ok"]
    assert (found["gpu"], found["compute"]) == (trace.gpu, "full") == ("mali_g71", "full")
    assert found["jobs"] == trace.jobs == TIMES
    assert found["trace_bytes"] == output.stat().st_size
    assert trace.raw
    assert trace.meta["core_mask"] == 0xFF
    warning, device, sums = result.stderr.splitlines()
    assert "panvk is not a conformant Vulkan implementation" in warning
    assert device == "vadd: device: Mali-G71"
    assert sums == f"vadd: 0 of {COUNT} sums are wrong"


def test_recorded_twice_it_is_the_same_file(recorded: tuple[Result, Path], vadd: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.gtr"
    record("--gpu", "mali_g71", "-o", again, "--", vadd, SHADER, COUNT, TIMES)
    assert again.read_bytes() == recorded[1].read_bytes()


@pytest.mark.parametrize(
    ("gpu", "model", "name"),
    [
        pytest.param("mali_g71", "mali_g71-arch60", "mali-g71", marks=pytest.mark.exhaustive),
        pytest.param("mali_g72", "mali_g72", "mali-g72", marks=pytest.mark.exhaustive),
        pytest.param("mali_g52r1", "mali_g52r1", "mali-g52", marks=pytest.mark.exhaustive),
        ("mali_g31", "mali_g31", "mali-g31"),
    ],
)
def test_panfrost_finds_what_the_model_is(gpu: str, model: str, name: str, root: RecordRoot) -> None:
    """What the kernel's driver says at its start, against the registers of the model."""
    result = boot(GuestJob("ls /dev/dri", gpu=gpu, uses_gpu=False), root, qemu_plugin())
    assert result.output.splitlines() == ["card0", "renderD128"]
    with VirtualGpu(model) as device:
        value = {r.name: device.read32(r.offset) for r in profile.load(gpu).registers.values() if r.readable}
    identity = value["gpu.GPU_ID"]
    said = [
        f"{name} id {identity >> 16:#x} major {identity >> 12 & 15:#x} minor {identity >> 4 & 255:#x} "
        f"status {identity & 15:#x}",
        f"Features: L2:{value['gpu.L2_FEATURES']:#010x} Shader:{value['gpu.CORE_FEATURES']:#010x} "
        f"Tiler:{value['gpu.TILER_FEATURES']:#010x} Mem:{value['gpu.MEM_FEATURES']:#x} "
        f"MMU:{value['gpu.MMU_FEATURES']:#010x} AS:{value['gpu.AS_PRESENT']:#x} JS:{value['gpu.JS_PRESENT']:#x}",
        f"shader_present={value['gpu.SHADER_PRESENT_LO']:#x} l2_present={value['gpu.L2_PRESENT_LO']:#x}",
    ]
    assert [text for text in said if text not in result.dmesg] == []
    assert result.counters["resets"] == 1


def test_what_is_recorded(trace: Trace) -> None:
    """The accesses that matter for a job, and none that would end it all before the next replay."""
    assert writes(trace, "js1.COMMAND_NEXT") == [1] * TIMES
    assert writes(trace, "as0.COMMAND").count(1) == 1  # update
    ops = trace.actions["op"].tolist()
    assert ops.count(Op.SET_GPU_PGTABLE) == 1
    assert ops.count(Op.WAIT_IRQ) == ops.count(Op.REG_WRITE_KEPT) == TIMES
    start = ops.index(Op.REPLAY_START)
    powered_off = [i for i, row in enumerate(trace.actions) if int(row["arg"]) * 4 == 0x1C0]
    assert all(i < start for i in powered_off)
    for row in trace.actions:
        register = GPU.by_offset.get(int(row["arg"]) * 4)
        assert int(row["op"]) != Op.REG_WRITE or (register is not None and not register.driver)


def test_it_replays_again_and_again(trace: Trace, replayed: Interpreter) -> None:
    """The model refuses a job whose header has a status; so each replay has reset what the last one left."""
    assert replayed.gpu.counters().jobs == 3 * TIMES
    (head,) = set(writes(trace, "js1.HEAD_NEXT_LO"))
    at = replayed.tables.translate(0, head)
    assert int(replayed.memory[at]) == DONE
    assert results() not in trace.image
    assert results() in gpu_memory(replayed)


def test_the_status_that_the_gpu_writes_is_not_in_the_recording(trace: Trace) -> None:
    """Before the first job there is none; before the others the driver takes it away, a byte."""
    (head,) = set(writes(trace, "js1.HEAD_NEXT_LO"))
    device = Interpreter(trace)
    jobs = np.flatnonzero(trace.actions["op"] == Op.JOB).tolist()
    found = []
    for index, row in enumerate(actions_of(trace.actions)):
        if index in jobs:
            found.append(int(device.memory[device.tables.translate(0, head)]))
        device._step(row)
    device.close()
    assert found == [0] * TIMES
    between = trace.actions[jobs[0] : jobs[-1]]
    assert between[between["op"] == Op.UPLOAD]["value"].tolist() == [1] * (TIMES - 1)


@pytest.mark.parametrize("gpu", ["mali_g71", "mali_g71-arch60"])
def test_what_is_built_from_it_replays(built: Path, gpu: str) -> None:
    """In the interpreter with all that the shaders would read, and in the replayer, also on another GPU_ID."""
    device = Interpreter(Trace.read(built))
    device.run()
    memory = gpu_memory(device)
    device.close()
    assert results() in memory
    signer = FileSigner(generate(Algorithm.ES256))
    replay = replay_on("vgpu", Delivery(sign_trace(built.read_bytes(), signer)), signer.public, repeat=3, gpu=gpu)
    assert replay.ok, replay.error
    assert (replay.jobs, replay.compute) == (TIMES, "full")


@pytest.mark.exhaustive  # a network on a G52 r1: test_compiled.py; a trace of another GPU: tests/emulated
@pytest.mark.parametrize("gpu", ["mali_g72", "mali_g52r1", "mali_g31"])
def test_another_mali(gpu: str, vadd: Path, tmp_path: Path) -> None:
    """Recorded there, built, replayed there, refused by a G71."""
    raw = tmp_path / "vadd.raw.gtr"
    record("--gpu", gpu, "-o", raw, "--", vadd, SHADER, COUNT, TIMES)
    trace = build(Trace.read(raw))
    with interpreter(trace) as device:
        device.run()
        assert results() in gpu_memory(device)
    signer = FileSigner(generate(Algorithm.ES256))
    delivery = Delivery(sign_trace(trace.build(), signer))
    replay = replay_on("vgpu", delivery, signer.public, repeat=3)
    assert replay.ok, replay.error
    assert (replay.jobs, replay.compute, replay.retries) == (TIMES, "full", 0)
    assert (
        replay_on("vgpu", delivery, signer.public, gpu="mali_g71").error == "the trace is for another GPU family"
    )


def test_a_recording_is_small(recorded: tuple[Result, Path], trace: Trace, built: Path) -> None:
    """Its carve-out has the GPU's pages and the image, not the guest's memory."""
    pages = int(trace.actions[trace.actions["op"] == Op.MAP_GPU_MEM]["value"].sum())
    assert trace.carveout_bytes <= (pages * 2 + len(trace.image) // PAGE_BYTES + 1) * PAGE_BYTES
    assert built.stat().st_size < recorded[1].stat().st_size


@pytest.mark.exhaustive  # the same on a V3D: test_record_run.py, with a library
def test_a_program_without_jobs(root: RecordRoot, tmp_path: Path) -> None:
    busybox = root.tree / "usr/bin/busybox"
    said = refused(tmp_path, "--gpu", "mali_g71", "--", busybox, "echo", "done")
    assert said == "no compute job reached the GPU; the program said: done"


def test_two_programs_one_after_the_other(root: RecordRoot, vadd: Path, tmp_path: Path) -> None:
    """The GPU sleeps between them; the second has the same addresses in other memory."""
    path = tmp_path / "two.gtr"
    script = f"./vadd {SHADER.name} 3000 2; sleep 1; ./vadd {SHADER.name} 2000 1"
    busybox = root.tree / "usr/bin/busybox"
    record("--gpu", "mali_g71", "-o", path, "--file", vadd, "--file", SHADER, "--", busybox, "sh", "-c", script)
    trace = Trace.read(path)
    assert trace.actions["op"].tolist().count(Op.SET_GPU_PGTABLE) == 2
    device = Interpreter(trace)
    for replays in (1, 2, 3):
        device.run()
        assert device.gpu.counters().jobs == 3 * replays
    device.close()


@pytest.mark.parametrize(
    ("argument", "message"), [("hang", "panfrost .*gpu sched timeout"), ("fault", "the GPU raised 1 MMU faults")]
)
def test_trouble_that_the_program_is_not_told(root: RecordRoot, vadd: Path, argument: str, message: str) -> None:
    job = program_job(root, GuestProgram(vadd, [str(SHADER), "100", "3"]), "mali_g71")
    with pytest.raises(RecordError, match=message):
        boot(job, root, qemu_plugin(), {argument: "2"})
