# SPDX-License-Identifier: BSD-2-Clause
"""Debian's panthor and PanVK in the recording machine, on the virtual Mali-G610: what the guest needs besides."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path

from host_tools.machine import kernel_modules
from host_tools.machine.apt import AptRoot
from host_tools.machine.boot import GuestJob
from host_tools.machine.gpu_firmware import MALI_ARCH_10_8, firmware_file
from host_tools.machine.initramfs import MODULES
from host_tools.machine.placements import Placement
from host_tools.machine.root import ARCHITECTURE, PACKAGES, SUITE, UNUSED

GPU = "mali_g610"
DRIVER = "panthor"
_CLOCK_HZ = 1_000_000_000
# Linux Documentation/devicetree/bindings/gpu/arm,mali-valhall-csf.yaml; panthor takes no GPU without a regulator
# and operating points. The flush id's page is user space's, so the window has all of its 2 MiB.
PLACEMENT = Placement(
    gpu=GPU,
    module=DRIVER,
    nodes=(
        {
            "name": "gpu-clock",
            "compatible": "fixed-clock",
            "#clock-cells": [0],
            "clock-frequency": [_CLOCK_HZ],
            "phandle": True,
        },
        {
            "name": "gpu-supply",
            "compatible": "regulator-fixed",
            "regulator-name": "gpu",
            "regulator-min-microvolt": [850_000],
            "regulator-max-microvolt": [850_000],
            "regulator-always-on": [],
            "phandle": True,
        },
        {"name": "gpu-points", "compatible": "operating-points-v2", "phandle": True},
        {"name": "gpu-points/point", "opp-hz": [0, _CLOCK_HZ], "opp-microvolt": [850_000]},
        {
            "name": "gpu",
            "compatible": "arm,mali-valhall-csf",
            "reg": [[0x0B000000, 0x200000]],
            "interrupts": [100, 101, 102],
            "interrupt-names": ["job", "mmu", "gpu"],
            "clocks": ["&gpu-clock"],
            "mali-supply": ["&gpu-supply"],
            "operating-points-v2": ["&gpu-points"],
            "dma-coherent": [],
        },
    ),
    setup="touch -d @1 /usr/lib/aarch64-linux-gnu/libvulkan_panfrost.so\n",
)


@functools.cache
def _files() -> dict[str, bytes]:
    """The driver's modules, in the order in which `init` loads them, and its firmware."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        apt = AptRoot(SUITE, ARCHITECTURE, "record", assume=UNUSED)
        apt.download(PACKAGES)
        apt.debs = [deb for deb in apt.debs if deb.name.startswith("linux-image")]
        apt.extract(
            folder,
            keep=lambda path: (
                "kernel/drivers/gpu/" in path or "/regulator/fixed" in path or path.endswith(".builtin")
            ),
        )
        modules = next((folder / MODULES).iterdir())
        found = kernel_modules.load_order(modules, ["fixed", DRIVER])
    files = {f"{MODULES}/{name}.ko": data for name, data in found.items()}
    files[f"{MODULES}/{DRIVER}.order"] = "".join(f"{name}.ko\n" for name in found).encode()
    files[MALI_ARCH_10_8.path] = firmware_file(MALI_ARCH_10_8, SUITE)
    return files


def on_g610(job: GuestJob) -> GuestJob:
    """The job with what the guest's root does not have."""
    return replace(job, gpu=GPU, files={**job.files, **_files()})
