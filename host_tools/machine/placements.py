# SPDX-License-Identifier: BSD-2-Clause
"""What the recording machine needs for each GPU: drivers, and where it sits. Read from `gpus/FAMILY/guest.toml`.

A family's file has the drivers that the guest's root holds, then a table for each place that a GPU can have. Its
nodes go into the device tree in order; of a node's properties

- `reg` is a list of addresses and sizes; the first address becomes part of the node's name,
- `interrupts` lists shared peripheral interrupts, active high,
- `phandle = true` gives a phandle, which others name as "&NAME",
- texts, lists of texts and lists of 32-bit cells are what they are in a device tree's source; [] has no value.

A family whose drivers are `beside` the root names them, and the firmware of each place; both come with each job.

A place that is `like` another one has that one's keys where it has none of its own.

The node called `gpu` says where the device plugin puts the virtual GPU. Where nothing real sets its place, it goes
to 0x0b000000, which is free in the virt machine's memory map (QEMU hw/arm/virt.c: virtio ends at 0x0a004000, the
platform bus begins at 0x0c000000), and to the interrupts that start at 100.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host_tools.support.gpu_folders import FOLDERS
from trace_format.files import read_file_text

FILE = "guest.toml"
GPU_NODE = "gpu"
BOOT_TIMEOUT_S = 900  # of one run of the guest, whatever its GPU; here, because help of `record` names it


@dataclass(frozen=True)
class Driver:
    """The files of a family's drivers that the guest's root holds.

    Attributes:
        module: the kernel's module.
        library: Mesa's Vulkan driver.
        icd: the file that announces it to Vulkan's loader.
    """

    module: str
    library: str
    icd: str


@dataclass(frozen=True)
class Placement:
    """Where a GPU sits in the recording machine.

    Attributes:
        gpu: name of the virtual GPU: that of its profile, with a variant after a dash.
        module: kernel module of its driver.
        nodes: of the device tree, in order; see this file's head.
        map: pieces of the register window that do not follow its first one, as the plugin takes them; "": none.
        setup: shell commands without which its user-space driver refuses to work.
        beside: kernel modules that come with the job, the driver among them; (): all are in the guest's root.
        firmware: the driver's, by its name in machine/gpu_firmware.py; "": it has none.
        without_ncnn: why ncnn does not run on it, and what to do; "": it does.
    """

    gpu: str
    module: str
    nodes: tuple[dict[str, Any], ...]
    map: str = ""
    setup: str = ""
    beside: tuple[str, ...] = ()
    firmware: str = ""
    without_ncnn: str = ""

    @property
    def _gpu_node(self) -> dict[str, Any]:
        return next(node for node in self.nodes if node["name"] == GPU_NODE)

    @property
    def base(self) -> int:
        """Physical address of the GPU's register window."""
        return int(self._gpu_node["reg"][0][0])

    @property
    def compatible(self) -> str:
        """How a device tree calls the GPU."""
        return str(self._gpu_node["compatible"])

    @property
    def irqs(self) -> tuple[int, ...]:
        """Shared peripheral interrupt numbers in the order of the profile's lines; consecutive."""
        return tuple(self._gpu_node["interrupts"])


def read(file: Path) -> tuple[Driver | None, dict[str, Placement]]:
    """Drivers and placements of one family; None: its drivers are not in the root."""
    data = tomllib.loads(read_file_text(file))
    driver = Driver(**{key: data.pop(key) for key in ("module", "library", "icd")})
    beside = tuple(data.pop("beside", ()))
    placements = {}
    for name, row in data.items():
        row = data[row["like"]] | row if "like" in row else row
        texts = {key: row[key] for key in ("map", "setup", "firmware", "without_ncnn") if key in row}
        placements[name] = Placement(row["gpu"], driver.module, tuple(row["nodes"]), beside=beside, **texts)
    return None if beside else driver, placements


_FAMILIES = [read(folder / FILE) for folder in FOLDERS if (folder / FILE).exists()]
DRIVERS = tuple(driver for driver, _ in _FAMILIES if driver is not None)
PLACEMENTS = {name: placement for _, placements in _FAMILIES for name, placement in placements.items()}
