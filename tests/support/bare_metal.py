# SPDX-License-Identifier: BSD-2-Clause
"""Runs a bare-metal test program on QEMU with the virtual GPU attached."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from host_tools.vgpu import build

FIRMWARE = Path(__file__).parents[1] / "qemu" / "firmware"
COMPILER = "aarch64-linux-gnu-gcc"
CFLAGS = (
    "-Os -ffreestanding -nostdlib -mcpu=cortex-a53 -mgeneral-regs-only -mstrict-align -fno-stack-protector "
    "-static -fno-pic -no-pie -Wl,--build-id=none -Wall -Wextra -Werror"
)
QEMU_ARGUMENTS = (
    "-cpu cortex-a53 -m 1024 -nic none -display none -serial null -monitor none -semihosting "
    "-icount shift=3,sleep=off"
)
TIMEOUT_S = 60
SECURE_RAM, DRAM = 0x0E000000, 0x40000000  # of the machine "virt"


@dataclass
class Run:
    """How a run ended. errors: the plugin's lines on standard error; stats: None when the plugin wrote none."""

    status: int
    errors: str
    stats: dict[str, Any] | None
    capture: Path


def require(program: str, package: str) -> str:
    """Path of a program; skips the test when it is not installed."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed: apt-get install --no-install-recommends {package}")
    return path


def run_program(plugin: Path, folder: Path, *defines: str, plugin_args: dict[str, str] | None = None) -> Run:
    """Compiles firmware/program.c and runs it.

    Args:
        plugin: the QEMU plugin.
        folder: for what comes into being.
        defines: preprocessor names (see program.c). NORMAL_WORLD boots a machine without a secure world.
        plugin_args: more arguments of the plugin, or others; an empty value takes one away.
    """
    compiler = require(COMPILER, "gcc-aarch64-linux-gnu")
    normal = "NORMAL_WORLD" in defines
    elf, image = folder / "program.elf", folder / "program.bin"
    base = f"-Wl,--defsym=DATA_BASE={DRAM if normal else SECURE_RAM:#x}"
    flags = [*CFLAGS.split(), *(f"-D{name}" for name in defines), base, "-T", str(FIRMWARE / "link.ld")]
    sources = [str(FIRMWARE / "start.S"), str(FIRMWARE / "program.c")]
    subprocess.run([compiler, *flags, "-o", str(elf), *sources], check=True)
    objcopy = compiler.removesuffix("gcc") + "objcopy"
    subprocess.run([objcopy, "-O", "binary", "-j", ".text", str(elf), str(image)], check=True)
    stats, capture = folder / "stats.json", folder / "run.cap"
    stats.unlink(missing_ok=True)
    capture.unlink(missing_ok=True)
    arguments = {"gpu": "v3d42", "base": "0x0b000000", "irq": "100"}
    arguments |= {"stats": str(stats), "capture": str(capture)}
    if not normal:
        arguments |= {"secure": "on", "carveout": "0x60000000:0x400000"}
    arguments |= plugin_args or {}
    option = ",".join([str(plugin), *(f"{name}={value}" for name, value in arguments.items() if value)])
    machine = f"virt,secure={'off' if normal else 'on'},gic-version=3"
    result = subprocess.run(
        [build.QEMU, "-M", machine, "-bios", str(image), *QEMU_ARGUMENTS.split(), "-plugin", option],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    found = json.loads(stats.read_text()) if stats.exists() else None
    own = "".join(line for line in result.stderr.splitlines(True) if "gramophone: " in line)
    return Run(result.returncode, own, found, capture)
