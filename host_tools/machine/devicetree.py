"""The device tree of the recording machine: QEMU's own for its virt machine, plus one GPU.

Nodes follow the kernel's bindings: Documentation/devicetree/bindings/gpu/{brcm,bcm-v3d,arm,mali-bifrost}.yaml and
soc/bcm/brcm,bcm2835-pm.yaml. The addresses of a placement are what the device plugin is told too.
"""

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from host_tools.machine.errors import RecordError

SPI, LEVEL_HIGH = 0, 4  # interrupt specifier of the Arm GIC binding: kind, number, trigger
V3D_BLOCK = 0x4000
# Free in the virt machine's memory map (QEMU hw/arm/virt.c: virtio ends at 0x0a004000, platform bus: 0x0c000000).
VIRT_GAP = 0x0B00_0000
POWER_DOMAIN_V3D, RESET_V3D = 1, 0  # dt-bindings/soc/bcm2835-pm.h
PHANDLE = re.compile(r"^\s*phandle = <(0x[0-9a-f]+)>;", re.MULTILINE)

Properties = Mapping[str, str | list[int]]


@dataclass(frozen=True)
class Placement:
    """Where a GPU sits in the recording machine.

    Args:
        gpu: name of the virtual GPU: that of its profile, with a variant behind a dash.
        base: physical address of its register window.
        irqs: shared peripheral interrupt numbers, in the order of the GPU profile's lines; one behind the other.
        module: kernel module of its driver.
        add: writes its nodes into a tree.
        setup: shell commands without which its user-space driver refuses to work.
    """

    gpu: str
    base: int
    irqs: tuple[int, ...]
    module: str
    add: Callable[["Tree", "Placement"], None]
    setup: str = ""


class Tree:
    """A device tree that nodes are added to.

    Raises:
        RecordError: device-tree-compiler is missing, or the blob is no device tree.
    """

    def __init__(self, blob: bytes) -> None:
        self._blob = blob

    def add(self, name: str, properties: Properties) -> None:
        """Add a node under the root. Values: text (inner NULs separate a list of strings), or 32-bit cells."""
        self._edit(["-c"], [f"/{name}"])
        self.set(f"/{name}", properties)

    def set(self, path: str, properties: Properties) -> None:
        """Set properties of a node that is there; values as in `add`."""
        for name, value in properties.items():
            kind, words = ("s", value.split("\0")) if isinstance(value, str) else ("x", [f"{n:x}" for n in value])
            self._edit(["-t", kind], [path, name, *words])

    def _edit(self, options: list[str], words: Iterable[str] = ()) -> None:
        with tempfile.NamedTemporaryFile(suffix=".dtb") as file:
            file.write(self._blob)
            file.flush()
            _run(["fdtput", *options, "--", file.name, *words])  # edits the file in place
            self._blob = Path(file.name).read_bytes()

    def new_phandle(self) -> int:
        """A phandle that no node has yet."""
        source = _run(["dtc", "-q", "-I", "dtb", "-O", "dts"], self._blob)
        return max((int(value, 16) for value in PHANDLE.findall(source)), default=0) + 1

    def to_bytes(self) -> bytes:
        """The tree as a flattened blob."""
        return self._blob


def _run(command: list[str], data: bytes = b"") -> str:
    """Run a program of device-tree-compiler; its output."""
    try:
        done = subprocess.run(command, input=data, capture_output=True, check=True)
    except FileNotFoundError:
        raise RecordError(f"{command[0]} is missing: apt-get install device-tree-compiler") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise RecordError(f"{command[0]} cannot edit the guest's device tree: {said}") from None
    return done.stdout.decode()


def _regs(*ranges: tuple[int, int]) -> list[int]:
    """Address and size as two cells each: the virt machine's root has 2 address and 2 size cells."""
    return [cell for base, size in ranges for cell in (base >> 32, base & 0xFFFF_FFFF, 0, size)]


def _interrupts(placement: Placement) -> list[int]:
    return [cell for irq in placement.irqs for cell in (SPI, irq, LEVEL_HIGH)]


def _add_v3d(tree: Tree, placement: Placement) -> None:
    """V3D 4.2 with the reset bridge in place of a reset controller: no power domain is needed."""
    blocks = [(placement.base + index * V3D_BLOCK, V3D_BLOCK) for index in range(3)]
    tree.add(
        f"gpu@{placement.base:x}",
        {
            "compatible": "brcm,2711-v3d",
            "reg": _regs(*blocks),
            "reg-names": "hub\0core0\0bridge",
            "interrupts": _interrupts(placement),
        },
    )


def _add_v3d_pi4(tree: Tree, placement: Placement) -> None:
    """V3D 4.2 as in bcm2711.dtsi: real addresses, powered and reset by the power-management block."""
    power = tree.new_phandle()
    tree.add(
        "power@fe100000",
        {
            "compatible": "brcm,bcm2711-pm\0brcm,bcm2835-pm-wdt",
            "reg": _regs((0xFE10_0000, 0x114), (0xFE00_A000, 0x24), (0xFEC1_1000, 0x20)),
            "reg-names": "pm\0asb\0rpivid_asb",
            "phandle": [power],
            "#power-domain-cells": [1],
            "#reset-cells": [1],
        },
    )
    blocks = [(placement.base + index * V3D_BLOCK, V3D_BLOCK) for index in range(2)]
    tree.add(
        f"gpu@{placement.base:x}",
        {
            "compatible": "brcm,2711-v3d",
            "reg": _regs(*blocks),
            "reg-names": "hub\0core0",
            "interrupts": _interrupts(placement),
            "power-domains": [power, POWER_DOMAIN_V3D],
            "resets": [power, RESET_V3D],
        },
    )


def _add_mali(tree: Tree, placement: Placement) -> None:
    """A Mali of the Bifrost family with a fixed clock."""
    clock = tree.new_phandle()
    tree.add(
        "gpu-clock",
        {
            "compatible": "fixed-clock",
            "#clock-cells": [0],
            "clock-frequency": [500_000_000],
            "phandle": [clock],
        },
    )
    tree.add(
        f"gpu@{placement.base:x}",
        {
            "compatible": "arm,mali-bifrost",
            "reg": _regs((placement.base, 0x4000)),
            "interrupts": _interrupts(placement),
            "interrupt-names": "job\0mmu\0gpu",
            "clocks": [clock],
        },
    )


PLACEMENTS = {
    "v3d42": Placement("v3d42", VIRT_GAP, (100,), "v3d", _add_v3d),
    "v3d42-pi4": Placement("v3d42", 0xFEC0_0000, (74,), "v3d", _add_v3d_pi4),
    "mali_g71": Placement(
        "mali_g71-arch60",  # Mesa knows no other GPU_ID of this family
        VIRT_GAP,
        (100, 101, 102),
        "panfrost",
        _add_mali,
        # Mesa src/panfrost/vulkan/panvk_physical_device.c: Bifrost is not conformant, and the driver's identity is
        # made of its file's time, which may not be 0.
        "export PAN_I_WANT_A_BROKEN_VULKAN_DRIVER=1\n"
        "touch -d @1 /usr/lib/aarch64-linux-gnu/libvulkan_panfrost.so\n",
    ),
}


def with_gpu(blob: bytes, gpu: str) -> bytes:
    """The device tree `blob` of QEMU's virt machine with the nodes of `gpu` (a key of PLACEMENTS) added."""
    placement = PLACEMENTS[gpu]
    tree = Tree(blob)
    placement.add(tree, placement)
    return tree.to_bytes()
