# SPDX-License-Identifier: BSD-2-Clause
"""The replayer in a process of Linux: Debian's kernel, its v3d driver, UIO, and the full stack, in one boot.

The full stack takes most of the time: with `--exhaustive`.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from host_tools import runners
from host_tools.demo import PARAM, RAW, WEIGHTS
from host_tools.demo.digits import load as load_digits
from host_tools.machine.boot import GuestJob, boot
from host_tools.machine.console import GuestResult
from host_tools.machine.elf import closure
from host_tools.machine.initramfs import STDLIB
from host_tools.machine.root import RecordRoot
from host_tools.passes.pipeline import build as build_trace
from host_tools.record.differences import relative_difference
from host_tools.record.ncnn.job import Float32, ncnn_job
from host_tools.record.shader_cache import with_shader_cache
from host_tools.record.tolerances import TOLERANCE
from host_tools.runners import user_space
from host_tools.runners.replay import RunnerError
from host_tools.support.tensors import npy
from host_tools.vgpu.build import qemu_plugin
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tee_replayer.generator.linux_folder import HERE as LINUX
from tee_replayer.generator.status import Report
from tests.support.signing_samples import ES256
from trace_format.trace import Trace

GPU = "v3d42"
CTYPES = f"{STDLIB}/lib-dynload/_ctypes.*.so"
REPLAY = "gramophone-gpu replay /job/net.sgtr --json"
# Replays twice by the binding; then keeps the GPU until it is killed.
BOUND = """
import sys, time
sys.path.insert(0, "/job")
from gramophone_gpu import Gpu, GpuError
gpu = Gpu()
gpu.load(open("/job/net.sgtr", "rb").read())
slots = gpu.slots
output = bytearray(slots["prob"].bytes)
gpu.bind("data", open("/job/1.npy", "rb").read()[-slots["data"].bytes:])
gpu.bind("prob", output)
for _ in range(2):
    gpu.run()
open("/out/bound", "wb").write(output)
try:
    gpu.bind("data", b"123")
except GpuError as error:
    print(error)
print("shape", *slots["data"].shape, "jobs", gpu.report["jobs"], flush=True)
time.sleep(1000)
"""
# `is NAME COMMAND` notes a command's status, and what it says as an error.
SHELL = """
is() { name=$1; shift; "$@" 2>/out/$name.error; echo status $name $?; }
user() { python3.13 -S -B -c 'import os, sys
os.setgroups([]); os.setgid(1000); os.setuid(1000); os.execvp(sys.argv[1], sys.argv[1:])' "$@"; }
"""


@pytest.fixture(scope="module")
def signer() -> FileSigner:
    return ES256  # what is compiled for it is kept


@pytest.fixture(scope="module")
def trace() -> Trace:
    data = RAW.read_bytes()
    return build_trace(Trace.parse(data), source=data)


@pytest.fixture(scope="module")
def digits() -> list[Float32]:
    return list(load_digits()[:2].inputs())


def full_stack(root: RecordRoot, digit: Float32) -> GuestJob:
    """ncnn on the kernel's driver."""
    param, weights = PARAM.read_bytes(), WEIGHTS.read_bytes()
    blank = ncnn_job(param, bytes(len(weights)), {"data": np.zeros_like(digit)})
    return with_shader_cache(ncnn_job(param, weights, {"data": digit}), blank, root, qemu_plugin())


@pytest.fixture(scope="module")
def guest(
    root: RecordRoot, signer: FileSigner, trace: Trace, digits: list[Float32], pytestconfig: pytest.Config
) -> GuestResult:
    """Every turn of the replayer; with `--exhaustive` ncnn before that, and again after it."""
    signed = sign_trace(trace.build(), signer)
    damaged = bytearray(signed)
    damaged[-20] ^= 1
    full = full_stack(root, digits[0]) if pytestconfig.getoption("--exhaustive") else GuestJob("mkdir /out/gpu")
    ctypes = closure(root.tree, [str(path.relative_to(root.tree)) for path in root.tree.glob(CTYPES)])
    folder = user_space.build(signer.public, GPU)
    files = {
        **full.files,
        **{path: host.read_bytes() for path, host in ctypes.items()},
        "job/full": full.command.encode(),
        "job/bound.py": BOUND.encode(),
        "job/gramophone_gpu.py": (LINUX / "gramophone_gpu.py").read_bytes(),
        "usr/lib/libgramophone_gpu.so": (folder / "libgramophone_gpu.so").read_bytes(),
        "job/net.sgtr": signed,
        "job/damaged.sgtr": bytes(damaged),
        "job/other.sgtr": sign_trace(trace.build(), FileSigner(generate(Algorithm.ES256))),
        "job/shape.npy": npy(digits[0][0]),
        "job/digits.npy": npy(np.stack(digits)),
        **{f"job/{index}.npy": npy(digit) for index, digit in enumerate(digits)},
    }
    script = [
        SHELL,
        "sh /job/full && mv /out/gpu /out/before",
        "is module gramophone-gpu take",
        user_space.LOAD,
        f"is untaken {REPLAY}",
        "sleep 1000 </dev/dri/renderD128 & pid=$!; is open gramophone-gpu take; kill $pid; wait $pid",
        "is user_take user gramophone-gpu take",
        "is take gramophone-gpu take; is again gramophone-gpu take; ls /dev/dri",
        f"is denied user {REPLAY}",
        "chown :1000 /dev/uio*; chmod 660 /dev/uio*; mkdir -m 777 /tmp/user",
    ]
    for index in range(len(digits)):
        files_of = f"--input data=/job/{index}.npy --output prob=/tmp/user/{index}.npy"
        line = f"{REPLAY} --repeat 2 {files_of} >/tmp/user/report{index}"
        script.append(f"is digit{index} user sh -c '{line}'")
    of_all = "--series data=/job/digits.npy --each prob=/tmp/user/each.npy --follow"
    script += [
        f"is series user sh -c '{REPLAY} --repeat 2 {of_all} >/tmp/user/said'",
        f"is short {REPLAY} --repeat 3 {of_all}",
        "cp /tmp/user/* /out",
        "is damaged gramophone-gpu verify /job/damaged.sgtr",
        "is other gramophone-gpu verify /job/other.sgtr",
        f"is shape {REPLAY} --input data=/job/shape.npy",
        f"is name {REPLAY} --input x=/job/0.npy",
        f"is nowhere {REPLAY} --input data=/job/0.npy --output prob=/nowhere/x.npy",
        "python3.13 -S -B /job/bound.py >/tmp/said 2>&1 & pid=$!",
        "until grep -q jobs /tmp/said || ! kill -0 $pid; do usleep 100000; done",
        "cat /tmp/said",
        f"is busy {REPLAY}; is held gramophone-gpu give-back; kill -9 $pid; wait $pid",
        f"is killed {REPLAY} --input data=/job/0.npy --output prob=/out/killed.npy",
        "is back gramophone-gpu give-back; ls /dev/dri /sys/class/uio",
        "is untaken_again gramophone-gpu verify /job/net.sgtr",
        "sh /job/full",
    ]
    job = user_space.job_with(root, folder, "\n".join(script), files, GPU, full.programs | ctypes.keys())
    return boot(job, root, qemu_plugin())


def tensor(guest: GuestResult, name: str) -> Float32:
    loaded: Float32 = np.load(io.BytesIO(guest.files[name]))
    return loaded


def raw(guest: GuestResult, name: str) -> Float32:
    return np.frombuffer(guest.files[name], "<f4")


def status(guest: GuestResult, name: str) -> tuple[int, str]:
    rows = [line.split() for line in guest.output.splitlines()]
    return next(int(row[2]) for row in rows if row[:2] == ["status", name]), guest.files[f"{name}.error"].decode()


def test_an_unprivileged_user_s_replays_give_what_the_host_s_give(
    guest: GuestResult, signer: FileSigner, trace: Trace, digits: list[Float32]
) -> None:
    for index, digit in enumerate(digits):
        assert status(guest, f"digit{index}") == (0, "")
        delivery = Delivery(sign_trace(trace.build(), signer))
        expected = runners.run("vgpu", delivery, signer.public, {"data": digit})
        assert tensor(guest, f"{index}.npy").tobytes() == expected.outputs["prob"].tobytes()
        report = json.loads(guest.files[f"report{index}"])
        assert report["jobs"] == expected.jobs
    assert tensor(guest, "0.npy").tobytes() != tensor(guest, "1.npy").tobytes()


def test_a_process_replays_one_value_after_the_other(guest: GuestResult, digits: list[Float32]) -> None:
    assert status(guest, "series") == (0, "")
    found = tensor(guest, "each.npy")
    *lines, report = guest.files["said"].decode().splitlines()
    for index in range(len(digits)):
        assert found[index].tobytes() == tensor(guest, f"{index}.npy").tobytes()
        assert lines[index] == f"replay {index} prob {found[index].tobytes().hex()}"
    assert len(lines) == len(digits)
    assert Report(**json.loads(report)).ok


@pytest.mark.exhaustive
def test_the_full_stack_gives_the_same_before_and_after(guest: GuestResult) -> None:
    assert relative_difference(tensor(guest, "0.npy").ravel(), raw(guest, "before/0")) <= TOLERANCE
    assert guest.files["gpu/0"] == guest.files["before/0"]


def test_the_binding_replays_as_the_command_does(guest: GuestResult) -> None:
    assert guest.files["bound"] == tensor(guest, "1.npy").tobytes()
    assert "shape 1 28 28 jobs 14" in guest.output
    assert "slot data: expected 3136 bytes, found 3" in guest.output


def test_the_kernel_s_driver_has_the_gpu_again(guest: GuestResult) -> None:
    said = guest.output.splitlines()
    assert [line for line in said if line.startswith("the GPU")] == [
        "the GPU was with v3d",
        "the GPU was with uio_pdrv_genirq",
        "the GPU is with v3d",
    ]
    assert "ls: /dev/dri: No such file or directory" in said
    assert said[said.index("/dev/dri:") :][:3] == ["/dev/dri:", "card0", "renderD128"]
    assert not {"uio0", "uio1"} & set(said)


def test_after_a_process_that_was_killed_the_next_one_replays(guest: GuestResult) -> None:
    assert status(guest, "killed") == (0, "")
    assert guest.files["killed.npy"] == guest.files["0.npy"]


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("module", 2, "the kernel's driver uio_pdrv_genirq is not there: modprobe uio_pdrv_genirq"),
        (
            "untaken",
            2,
            "/sys/class/uio: no device with the registers of a Broadcom V3D 4.2: 'gramophone-gpu take'",
        ),
        ("open", 2, "the GPU is busy: process "),
        ("user_take", 2, "/driver_override: Permission denied: this is for root"),
        ("again", 0, ""),
        (
            "denied",
            2,
            "/dev/uio1: Permission denied: no permission: root has it, and whom 70-gramophone.rules names",
        ),
        ("damaged", 1, "a chunk of the trace is not what the signed head says"),
        ("other", 1, "the trace is signed with another key than this device's"),
        (
            "shape",
            2,
            "/job/shape.npy: slot data: expected {'descr': '<f4', 'fortran_order': False, 'shape': (1, 28, ",
        ),
        (
            "short",
            2,
            "/job/digits.npy: slot data: expected {'descr': '<f4', 'fortran_order': False, 'shape': (3, 1, ",
        ),
        ("name", 2, "the trace has no input x"),
        ("nowhere", 2, "/nowhere/x.npy"),
        ("busy", 2, "/dev/uio1: the GPU is busy: another process replays on it"),
        ("held", 2, "the GPU is busy: process "),
        ("untaken_again", 2, "no device with the registers"),
    ],
)
def test_what_is_missing_or_refused_is_said(guest: GuestResult, name: str, code: int, message: str) -> None:
    found, said = status(guest, name)
    assert found == code
    assert message in said
    assert not code or said.startswith("error: ")
    assert said.count("\n") == bool(code)


def test_a_device_tree_without_carve_out(root: RecordRoot, signer: FileSigner) -> None:
    folder = user_space.build(signer.public, GPU)
    script = f"{user_space.LOAD}gramophone-gpu take; echo status $?; gramophone-gpu replay; echo status $?"
    job = user_space.job_with(root, folder, script, {}, GPU)
    said = boot(replace(job, overlay=None), root, qemu_plugin()).output
    assert (
        "error: /sys/bus/platform/devices: the device tree has no gramophone,carveout node: carveout.dtso" in said
    )
    assert "error: no trace is named" in said
    assert said.count("status 2") == 2


def test_the_runner_says_what_failed(signer: FileSigner, trace: Trace, tmp_path: Path) -> None:
    signed = sign_trace(trace.build(), signer)
    with pytest.raises(RunnerError, match="expected a folder of 'gramophone generate' for linux after make"):
        runners.run("linux", Delivery(signed), signer.public, firmware=tmp_path)
    with pytest.raises(RunnerError, match=r"^the guest has no v3d42-pi4 for a process"):
        runners.run("linux", Delivery(signed), signer.public, gpu="v3d42-pi4")
