# SPDX-License-Identifier: BSD-2-Clause
"""Replays in a process of Linux: `gramophone-gpu` in the recording machine's guest.

It takes the GPU from the kernel's driver, and gives it back.
"""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from host_tools.families.family import profile_of
from host_tools.machine import uio_module
from host_tools.machine.boot import BOOT_TIMEOUT_S, GuestJob, boot
from host_tools.machine.placements import PLACEMENTS
from host_tools.machine.root import RecordRoot, ready_root
from host_tools.runners import libraries
from host_tools.runners.buffers import bound
from host_tools.runners.firmware import CROSS, compile_firmware, compiled_once
from host_tools.runners.needs import algorithms_in, decryption_for, gpu_of, is_streamed
from host_tools.runners.replay import ReplayResult, RunnerError, result
from host_tools.runners.requests import MachineRequest, WatchedRequest
from host_tools.runners.watching import followed
from host_tools.vgpu.build import qemu_plugin
from signing.trust import Anchor
from signing.trust_verdict import NO_ID
from tee_replayer.crypto import Libraries
from tee_replayer.generator.generate import generate
from tee_replayer.generator.linux_folder import PLATFORM
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.status import Report
from trace_format.files import read_file
from trace_format.schema.trust import KeyKind

DEVICE = "QEMU virt, Linux, user space"
CONSOLE = "/dev/ttyAMA0"
PROGRAM, OVERLAY = "gramophone-gpu", "carveout.dtbo"
# The last 256 MiB of the guest's memory; its device tree has sizes of 64 bits.
PLACE = ("CARVEOUT=0xb0000000", "MIB=256", "SIZE_CELLS=2")
LOAD = "".join(f"insmod /usr/lib/modules/{name}.ko || exit\n" for name in (uio_module.NEEDED, uio_module.NAME))


@dataclass(frozen=True, kw_only=True)
class LinuxRequest(MachineRequest, WatchedRequest):
    """What it takes."""


REQUEST = LinuxRequest


def replay(request: LinuxRequest) -> ReplayResult:
    """As Runner: the command takes the GPU, verifies, loads and replays, and gives it back.

    Raises:
        RecordError: the guest's parts cannot be obtained, or it failed.
        RunnerError: the guest has no such GPU for a process, the folder is not one of this platform after make, it
            does not compile, or the command could not replay for another reason than the trace, which it gives.
    """
    delivery = request.delivery
    gpu = gpu_of(delivery, request.gpu)
    if gpu not in PLACEMENTS or gpu != profile_of(gpu).name:
        raise RunnerError(f"the guest has no {gpu} for a process: a variant's board is not in it")
    if decryption_for(delivery).wanted:
        raise RunnerError("the trace is encrypted, and the machine's root sees all that a process decrypts")
    buffers = bound(request)
    crypto = libraries.source(request.bearssl, request.aws_lc)
    folder = request.firmware or build(
        request.key,
        gpu,
        request.min_security_version,
        crypto=crypto,
        algorithms=algorithms_in(delivery),
        device_id=request.device_id,
        streaming=is_streamed(delivery),
    )
    tensors, options = buffers.for_guest()
    words = [PROGRAM, "replay", "/job/net.sgtr", "--json", "--repeat", str(request.repeat), *options]
    words, shown = ([*words, "--follow"], f"| tee {CONSOLE} ") if request.watch else (words, "")
    command = f"{LOAD}{PROGRAM} take && {shlex.join(words)} {shown}>/out/answer; {PROGRAM} give-back"
    root = ready_root()
    job = job_with(root, folder, command, {"job/net.sgtr": delivery.data, **tensors}, gpu)
    timeout_s = request.timeout_s or BOOT_TIMEOUT_S
    with tempfile.TemporaryDirectory() as name, followed(request, console := Path(name) / "console"):
        done = boot(job, root, qemu_plugin(), request.plugin_args, timeout=timeout_s, console=console)
    try:
        report = Report(**json.loads(done.files["answer"].splitlines()[-1]))
        if report.ok:
            buffers.take_from_guest(done.files)
    except (LookupError, ValueError, TypeError) as error:
        raise RunnerError(f"{PROGRAM} gave no answer: {done.output.strip()}") from error
    return result(report, DEVICE, buffers.outputs, None, delivery, gpu)


def build(
    key: Anchor,
    gpu: str,
    min_security_version: int = 0,
    *,
    crypto: Libraries | None = None,
    algorithms: Collection[KeyKind] = (),
    device_id: bytes = NO_ID,
    networks: int = 0,
    schedule: int = 0,
    streaming: bool = False,
) -> Path:
    """The generated folder for a key after make, with the guest's overlay; from the cache.

    Raises:
        ProfileError: UIO cannot hand out this GPU.
        RunnerError: it does not compile.
    """

    def write(folder: Path) -> None:
        generate(
            Options(
                profile_of(gpu).name,
                platform_of(PLATFORM),
                key,
                crypto or libraries.source(),
                min_security_version=min_security_version,
                algorithms=algorithms,
                device_id=device_id,
                networks=networks,
                schedule=schedule,
                streaming=streaming,
            ),
            folder,
        )

    return compiled_once(write, "all", OVERLAY, f"CROSS_COMPILE={CROSS}", *PLACE)


def job_with(
    root: RecordRoot,
    folder: Path,
    command: str,
    files: Mapping[str, bytes],
    gpu: str,
    programs: frozenset[str] = frozenset(),
) -> GuestJob:
    """A job of a guest that has the command, the carve-out and, after `LOAD`, UIO.

    Args:
        root: what is booted.
        folder: generated for this platform, after make.
        command, files, gpu, programs: as GuestJob.

    Raises:
        RunnerError: the folder is none.
    """
    path = f"usr/bin/{PROGRAM}"
    if not (folder / PROGRAM).is_file() or not (folder / "carveout.dtso").is_file():
        raise RunnerError(
            f"{folder}: expected a folder of 'gramophone generate' for {PLATFORM} after make, found none"
        )
    content = {**uio_module.modules(root), path: read_file(folder / PROGRAM), **files}
    return GuestJob(command, content, programs | {path}, gpu, uses_gpu=False, overlay=_overlay(folder))


def _overlay(folder: Path) -> bytes:
    """The overlay that puts the carve-out at the guest's PLACE."""
    with tempfile.TemporaryDirectory() as name:
        for source in ("Makefile", "carveout.dtso"):
            shutil.copyfile(folder / source, Path(name) / source)
        compile_firmware(Path(name), OVERLAY, f"CROSS_COMPILE={CROSS}", *PLACE)
        return read_file(Path(name) / OVERLAY)
