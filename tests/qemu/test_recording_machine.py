# SPDX-License-Identifier: BSD-2-Clause
"""The whole unmodified stack on the virtual GPU: right results, the same recording each time, clear failures."""

from pathlib import Path

import numpy as np
import pytest

from host_tools.demo.models import NcnnWriter
from host_tools.machine.boot import GuestJob, boot
from host_tools.machine.errors import RecordError
from host_tools.machine.root import RecordRoot
from host_tools.record import ncnn_cpu
from host_tools.record.ncnn_job import Float32, ncnn_job, ncnn_result
from host_tools.record.shader_cache import with_shader_cache
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


def inputs(seed: int) -> dict[str, Float32]:
    return {"data": np.random.default_rng(seed).random(SHAPE, dtype=np.float32)}


def test_recording_does_not_depend_on_what_was_cached(
    root: RecordRoot, gpu: Path, network: tuple[bytes, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cold, the recording boots twice, warm once; the bytes are the same, and the results are ncnn's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    job = ncnn_job(*network, inputs(1), reference=True)
    warming = ncnn_job(network[0], bytes(len(network[1])), {"data": np.zeros(SHAPE, np.float32)})
    captures = []
    for run in ("cold", "warm"):
        capture = tmp_path / run
        ready = with_shader_cache(job, warming, root, gpu)
        result = boot(ready, root, gpu, {"capture": str(capture)})
        captures.append(capture.read_bytes())
    assert captures[0] == captures[1]
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


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo to standard error >&2; exit 7", "failed with status 7: to standard error"),
        ("true", "no compute job reached the GPU"),
        ("kill -9 1; echo c >/proc/sysrq-trigger", "panicked: Kernel panic"),
        ("python3.13 -S -c 'raise ValueError(3 + 4)'", "Traceback .*ValueError: 7"),
        ("poweroff -f", "ended before its job did"),
    ],
    ids=["exit status", "no job", "panic", "traceback", "power off"],
)
def test_failures_are_told_apart(root: RecordRoot, gpu: Path, script: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        boot(GuestJob(script), root, gpu)


def test_a_guest_that_hangs_is_given_up(root: RecordRoot, gpu: Path) -> None:
    with pytest.raises(RecordError, match="did not power off within 8 s"):
        boot(GuestJob("while true; do :; done"), root, gpu, timeout=8)


@pytest.mark.parametrize(("argument", "message"), [("hang", "hang"), ("fault", "MMU")])
def test_gpu_trouble_is_reported_although_the_program_succeeds(
    root: RecordRoot, gpu: Path, network: tuple[bytes, bytes], argument: str, message: str
) -> None:
    """The kernel resets the GPU and signals the fence as if the job had been done."""
    warming = ncnn_job(network[0], bytes(len(network[1])), {"data": np.zeros(SHAPE, np.float32)})
    job = with_shader_cache(ncnn_job(*network, inputs(1)), warming, root, gpu)
    with pytest.raises(RecordError, match=message):
        boot(job, root, gpu, {argument: "2"})
