# SPDX-License-Identifier: BSD-2-Clause
"""The archive of `try-gpu` for a guest: unpacked, compiled, and with what runs it."""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from host_tools.extras.try_gpu.pack import LIST, TOP, pack
from host_tools.machine.boot import GuestJob
from host_tools.machine.console import GuestResult
from host_tools.support.gpu_folders import DEFAULT_GPU
from tests.support.bare_metal import COMPILER, require
from tests.support.guest_programs import SHADER

GUEST = Path(__file__).parents[1] / "qemu" / "try_gpu_guest.py"
PROGRAM = "gramophone-gpu"


def unpacked(folder: Path, gpu: str, more: Sequence[Path] = ()) -> Path:
    """The archive's folder, in which the program of a GPU is compiled as on a board."""
    require(COMPILER, "gcc-aarch64-linux-gnu")
    archive = folder / "pi.tar"
    archive.write_bytes(pack(more).data)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    command = ["make", "-s", "-C", str(folder / TOP / gpu), "CROSS_COMPILE=aarch64-linux-gnu-", "LDFLAGS=-static"]
    subprocess.run([*command, PROGRAM, "EXTRA_CFLAGS=-Werror"], check=True)
    return folder / TOP


def guest_job(
    folder: Path, gpu: str, vadd: Path, words: str, *, before: str = "", place: str = DEFAULT_GPU
) -> GuestJob:
    """What a guest does with the archive.

    Args:
        folder: from `unpacked`.
        gpu: whose program was compiled.
        vadd: a Vulkan program.
        words: arguments of the guest's program (try_gpu_guest.py).
        before: shell commands before it.
        place: of the GPU in the recording machine; another machine has none of these.
    """
    own = folder / gpu
    wanted = [folder / "try-gpu.sh", *folder.glob("*/compatible.txt"), *folder.glob(f"*/{LIST}"), own / PROGRAM]
    wanted += [*own.glob("*.sgtr"), *own.glob("expected/*")]
    files = {f"try/{path.relative_to(folder)}": path.read_bytes() for path in wanted}
    files |= {
        "job/vadd": vadd.read_bytes(),
        "job/add.spv": SHADER.read_bytes(),
        "job/guest.py": GUEST.read_bytes(),
    }
    programs = frozenset({f"try/{gpu}/{PROGRAM}", "job/vadd"})
    return GuestJob(f"{before}python3.13 -S -B /job/guest.py {words}", files, programs, place)


def said_by(found: GuestResult) -> dict[str, list[str]]:
    """What each part of the guest's program printed, by its name."""
    print(found.output)
    return dict(json.loads(found.files["said"]))


def networks(folder: Path, gpu: str) -> dict[str, list[str]]:
    """Name of each network -> its outputs."""
    rows = [line.split() for line in (folder / gpu / LIST).read_text().splitlines()]
    return {trace.removesuffix(".sgtr"): slots for trace, *slots in rows}
