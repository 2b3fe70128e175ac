# SPDX-License-Identifier: BSD-2-Clause
"""The whole unmodified stack on the virtual GPU: right results, the same recording each time, clear failures."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from docs.examples.models import NcnnWriter
from host_tools.machine import boot as machine
from host_tools.machine import saved_state
from host_tools.machine.boot import GuestJob, boot
from host_tools.machine.errors import RecordError
from host_tools.machine.placements import PLACEMENTS
from host_tools.machine.root import RecordRoot
from host_tools.record.ncnn import cpu as ncnn_cpu
from host_tools.record.ncnn.job import Float32, ncnn_job, ncnn_result
from host_tools.record.shader_cache import with_shader_cache
from host_tools.support.cache import cache_dir
from host_tools.support.progress import jobs_in
from host_tools.vgpu.build import qemu_plugin

SHAPE = (3, 9, 7)  # rows and channels that no vector length divides


@pytest.fixture(scope="session")
def gpu() -> Path:
    return qemu_plugin()


@pytest.fixture(scope="session")
def network() -> tuple[bytes, bytes]:
    """Two convolutions, one of them depthwise, pooling and a softmax."""
    net = NcnnWriter(5, SHAPE[0], 0)
    net.convolution("conv", 8, 3, 1, 1)
    net.depthwise("depthwise", 3, 2, 1)
    net.average_pool("pool")
    net.inner_product("fc", 10)
    net.softmax("prob")
    return net.files()


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for states that are damaged: those of the user's are in use by tests beside this one."""
    return tmp_path_factory.mktemp("cache")


def inputs(seed: int) -> dict[str, Float32]:
    return {"data": np.random.default_rng(seed).random(SHAPE, dtype=np.float32)}


@pytest.mark.exhaustive
def test_recording_does_not_depend_on_what_was_cached(
    root: RecordRoot, gpu: Path, network: tuple[bytes, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cold, the machine's state is made and shaders are compiled, warm neither, then the state is made anew: the
    bytes are the same, and the results are ncnn's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    job = ncnn_job(*network, inputs(1), reference=True)
    warming = ncnn_job(network[0], bytes(len(network[1])), {"data": np.zeros(SHAPE, np.float32)})
    captures, memories = [], []
    for run in ("cold", "warm", "anew"):
        if run == "anew":
            shutil.rmtree(cache_dir(saved_state.PART))
        capture = tmp_path / run
        ready = with_shader_cache(job, warming, root, gpu)
        told = tmp_path / f"{run}.progress"
        result = boot(ready, root, gpu, {"capture": str(capture), "progress": str(told)})
        captures.append(capture.read_bytes())
        # The run that compiled was without ncnn's CPU back end beside the GPU's, which has no jobs.
        assert jobs_in(told, 0).done() == result.counters["jobs"] == ready.expected_jobs
        [memory] = cache_dir(saved_state.PART).glob(f"*/{machine.RAM}")
        memories.append(hashlib.sha256(memory.read_bytes()).digest())
    assert captures[0] == captures[1] == captures[2]
    assert len(set(memories)) == 1  # no run changes it
    answer = ncnn_result(result.files)
    assert answer.versions["device"].startswith("V3D 4.2")
    assert result.counters["jobs"] >= 4
    (tmp_path / "net.param").write_bytes(network[0])
    (tmp_path / "net.bin").write_bytes(network[1])
    expected = ncnn_cpu.run(tmp_path / "net.param", tmp_path / "net.bin", inputs(1))["prob"]
    np.testing.assert_allclose(answer.outputs["prob"], expected, rtol=1e-5)
    np.testing.assert_allclose(answer.reference["prob"], expected, rtol=1e-5)


def test_a_programs_output_and_files_come_back(root: RecordRoot, gpu: Path) -> None:
    script = "echo said; ls /dev/dri; mkdir /out/a; printf 'x\\0y' >/out/a/b; cat /job/data >/out/c"
    data = bytes(range(256)) * 300
    result = boot(GuestJob(script, {"job/data": data}, uses_gpu=False), root, gpu)
    assert result.output.splitlines() == ["said", "card0", "renderD128"]
    assert result.files == {"a/b": b"x\0y", "c": data}
    assert result.counters["jobs"] == 0


# All but one without a guest: tests/unit/machine/test_console.py. A program without jobs: test_record_run.py.
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo to standard error >&2; exit 7", "failed with status 7: to standard error"),
        pytest.param("true", "no compute job reached the GPU", marks=pytest.mark.exhaustive),
        ("kill -9 1; echo c >/proc/sysrq-trigger", "panicked: Kernel panic"),
        pytest.param(
            "python3.13 -S -c 'raise ValueError(3 + 4)'", "Traceback .*ValueError: 7", marks=pytest.mark.exhaustive
        ),
        pytest.param("poweroff -f", "ended before its job did", marks=pytest.mark.exhaustive),
    ],
    ids=["exit status", "no job", "panic", "traceback", "power off"],
)
def test_failures_are_told_apart(root: RecordRoot, gpu: Path, script: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        boot(GuestJob(script), root, gpu)


def test_what_a_run_leaves_the_next_does_not_see(root: RecordRoot, gpu: Path) -> None:
    """Runs start from one state, whose memory they only read."""
    script = "ls /job /tmp; cut -d ' ' -f 1 /proc/uptime; echo >/tmp/left; date"
    said = [boot(GuestJob(script, uses_gpu=False), root, gpu).output for _ in range(2)]
    assert said[0] == said[1]


def test_a_job_that_is_too_large_is_refused(root: RecordRoot, gpu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_JOB_BYTES", 1000)
    with pytest.raises(RecordError, match=r"the job's files are \d+ bytes, more than 1000"):
        boot(GuestJob("true", {"job/data": bytes(1000)}), root, gpu)


@pytest.mark.exhaustive  # a gigabyte; that a job did not arrive is said by the next test, too
def test_a_job_that_the_guest_has_no_room_for_is_refused(root: RecordRoot, gpu: Path) -> None:
    with pytest.raises(RecordError, match=r"the guest did not get the job's files: .*No space left"):
        boot(GuestJob("true", {"job/data": bytes(1000 << 20)}), root, gpu)


def test_a_guest_without_a_window_says_so(root: RecordRoot, gpu: Path) -> None:
    """The state is that of the guest before it reads the window, which here is elsewhere."""
    with pytest.raises(RecordError, match=r"the guest did not get the job's files: .*not received"):
        boot(GuestJob("true"), root, gpu, {"window": "0x200000000"})


@pytest.mark.exhaustive  # a whole boot; that runs begin alike: test_what_a_run_leaves_the_next_does_not_see
def test_a_guest_that_used_the_gpu_is_not_saved(
    root: RecordRoot, gpu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the GPU is in is no part of a state. Nothing of a state that is not whole stays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    init = tmp_path / "init"
    touch = f"devmem {PLACEMENTS['v3d42'].base:#x} 32\nif [ -e /receive_job.py ]"
    init.write_text(machine.INIT.read_text(encoding="utf-8").replace("if [ -e /receive_job.py ]", touch))
    monkeypatch.setattr(machine, "INIT", init)
    with pytest.raises(RecordError, match="window: the guest has used the GPU"):
        boot(GuestJob("true"), root, gpu)
    assert [path.name for path in cache_dir(saved_state.PART).iterdir()] == ["in-use"]


@pytest.mark.exhaustive  # whole boots; without a guest: tests/unit/machine/test_saved_state.py
@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (saved_state.STATE, lambda file: os.truncate(file, 1000)),
        (saved_state.STATE, lambda file: file.write_bytes(bytes(file.stat().st_size))),
        (machine.RAM, lambda file: os.truncate(file, 0)),
        (saved_state.SIZES, lambda file: file.unlink()),
    ],
    ids=["cut short", "other content", "no memory", "not finished"],
)
def test_a_damaged_state_is_made_anew(
    root: RecordRoot,
    gpu: Path,
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    damage: Callable[[Path], object],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(own_cache))
    job = GuestJob("cut -d ' ' -f 1 /proc/uptime", uses_gpu=False)
    whole = boot(job, root, gpu)
    [file] = cache_dir(saved_state.PART).glob(f"*/{name}")
    damage(file)
    assert boot(job, root, gpu) == whole


def test_a_guest_that_hangs_is_given_up(root: RecordRoot, gpu: Path) -> None:
    with pytest.raises(RecordError, match="did not power off within 2 s"):
        boot(GuestJob("while true; do :; done"), root, gpu, timeout=2)


@pytest.mark.exhaustive  # a Mali's: test_record_mali.py; what v3d says: tests/unit/machine/test_console.py
@pytest.mark.parametrize(("argument", "message"), [("hang", "hang"), ("fault", "MMU")])
def test_gpu_trouble_is_reported_although_the_program_succeeds(
    root: RecordRoot, gpu: Path, network: tuple[bytes, bytes], argument: str, message: str
) -> None:
    """The kernel resets the GPU and signals the fence as if the job had been done."""
    warming = ncnn_job(network[0], bytes(len(network[1])), {"data": np.zeros(SHAPE, np.float32)})
    job = with_shader_cache(ncnn_job(*network, inputs(1)), warming, root, gpu)
    with pytest.raises(RecordError, match=message):
        boot(job, root, gpu, {argument: "2"})
