# SPDX-License-Identifier: BSD-2-Clause
"""Drivers that the guest's root does not have, and their firmware: files that come with a job.

They are of the packages that the root is made of, so modules fit the kernel. Roots stay as they are, and so do
recordings on them.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from host_tools.machine import kernel_modules
from host_tools.machine.apt import AptRoot
from host_tools.machine.gpu_firmware import FIRMWARE, firmware_file
from host_tools.machine.initramfs import MODULES
from host_tools.machine.placements import Placement
from host_tools.machine.root import ARCHITECTURE, PACKAGES, SUITE, UNUSED, RecordRoot

_FOLDERS = ("kernel/drivers/gpu/", "kernel/drivers/devfreq/", "kernel/drivers/regulator/")


def driver_files(placement: Placement, root: RecordRoot) -> dict[str, bytes]:
    """Guest path -> content of what a GPU's driver needs besides the root.

    Raises:
        RecordError: a package or the firmware cannot be had.
    """
    if not placement.beside:
        return {}
    files = dict(_modules(placement.beside, root.snapshot, root.versions["kernel"]))
    if placement.firmware:
        firmware = FIRMWARE[placement.firmware]
        files[firmware.path] = firmware_file(firmware, SUITE)
    return files


@functools.cache
def _modules(names: tuple[str, ...], snapshot: str, kernel: str) -> dict[str, bytes]:
    """Modules `names` and those that they need; the order in which `init` loads them, under the last name."""
    apt = AptRoot(SUITE, ARCHITECTURE, "record", assume=UNUSED, stamp=snapshot)
    apt.download(PACKAGES)
    apt.debs = [deb for deb in apt.debs if deb.name.startswith("linux-image")]
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        apt.extract(Path(folder), keep=lambda path: kernel_modules.is_wanted(path, _FOLDERS))
        found = kernel_modules.load_order(Path(folder) / MODULES / kernel, list(names))
    order = "".join(f"{name}.ko\n" for name in found).encode()
    return {f"{MODULES}/{name}.ko": data for name, data in found.items()} | {f"{MODULES}/{names[-1]}.order": order}
