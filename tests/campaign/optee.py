# SPDX-License-Identifier: BSD-2-Clause
"""OP-TEE's path: the core, the driver and the seam compiled as for the pseudo-TA, over OP-TEE's own crypto.

What is not in the image: OP-TEE's kernel, the pseudo-TA's commands and its port. The program around the core is
the bare-metal one (main.c, startup.S, port.c).
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from host_tools.runners import firmware
from host_tools.runners import libraries as crypto
from host_tools.runners.optee import build as optee
from host_tools.runners.replay import RunnerError
from host_tools.support.cache import cache_dir, locked
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.campaign import device
from tests.campaign.cases import MIN_SECURITY_VERSION
from tests.campaign.device import Device
from tests.support import replayer_samples as s

HERE = Path(__file__).parent / "optee"
# Of OP-TEE's source tree.
INCLUDES = (
    *(
        f"core/{name}"
        for name in ("include", "arch/arm/include", "arch/arm/plat-vexpress", "lib/libtomcrypt/include")
    ),
    *(f"lib/{name}" for name in ("libutee/include", "libutils/ext/include", "libutils/isoc/include")),
)
# Of its build.
OBJECTS = ("core/crypto/crypto.o", "core/tee/tee_cryp_utl.o")
ACCELERATED = "core/arch/arm/crypto"
LIBRARIES = (
    "core/lib/libtomcrypt/libtomcrypt.a",
    "core-lib/libmbedtls/libmbedtls.a",
    "core-lib/libutils/libutils.a",
)
FLAGS = ("-std=gnu11", "-g", "-mgeneral-regs-only", "-mstrict-align", "-ffreestanding", "-fno-pic", "-w")
DEFINES = ("-DARM64=1", "-D__KERNEL__", "-DTRACE_LEVEL=1")


def build(gpu: str, folder: Path) -> Device:
    """The image for the samples' key, which accepts traces from MIN_SECURITY_VERSION on.

    Args:
        gpu: the profile.
        folder: where it is compiled.

    Raises:
        RunnerError: it does not compile.
        GramophoneError: OP-TEE cannot be built here.
    """
    board = device.build(gpu, folder / "board").firmware.folder
    pta = generate(
        Options(gpu, platform_of("optee"), s.KEY, crypto.source(), min_security_version=MIN_SECURITY_VERSION),
        folder / "pta",
    )
    optee.core_of(pta)
    tree = optee.source(*optee.CORE)
    with locked(cache_dir("optee") / optee.IN_USE):
        _compile(tree, tree.parent / f"{tree.name}.out", pta, board, folder)
    return Device(gpu, firmware.read_elf(folder / firmware.ELF), device.OPTEE)


def _compile(tree: Path, out: Path, pta: Path, board: Path, folder: Path) -> None:
    cc = f"{firmware.CROSS}gcc"
    includes = [
        pta,
        board,
        *(tree / name for name in INCLUDES),
        out / "include/generated",
        out / "core/include/generated",
    ]
    sub_mk = (pta / "sub.mk").read_text().replace("\\\n", "")
    own = re.findall(r"-[fO]\S+", " ".join(re.findall(r"^cflags-y \+= (.*)$", sub_mk, re.MULTILINE)))
    flags = [
        *FLAGS,
        *own,
        *DEFINES,
        "-include",
        str(out / "include/generated/conf.h"),
        "-include",
        str(board / "board.h"),
        *(f"-I{path}" for path in includes),
        *(f"-isystem{pta / 'aws-lc' / name}" for name in ("s2n-bignum/include", "include")),
    ]
    for name in ("core", "kernel"):
        _run(cc, *flags, "-c", "-o", str(folder / f"{name}.o"), str(HERE / f"{name}.c"))
    elf = folder / firmware.ELF
    objects = [folder / "core.o", folder / "kernel.o", board / "startup.o", board / "string.o"]
    objects += [out / name for name in OBJECTS]
    objects += sorted((out / ACCELERATED).glob("*.o"))
    objects += sorted((board / "aws-lc" / "s2n-bignum").rglob("*.o"))
    libraries = ["-Wl,--start-group", *(str(out / name) for name in LIBRARIES), "-Wl,--end-group"]
    link = [
        "-nostdlib",
        "-static",
        "-no-pie",
        "-Wl,--gc-sections",
        "-Wl,--build-id=none",
        "-Wl,--no-warn-rwx-segments",
    ]
    _run(cc, *link, "-T", str(HERE / "core.ld"), "-o", str(elf), *map(str, objects), *libraries)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunnerError(f"OP-TEE's path does not compile: {' '.join(command)}\n{done.stderr.strip()}")
