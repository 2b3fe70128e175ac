"""What an image of each platform is: container, the piece with the replayer, what must be there for it to boot."""

from __future__ import annotations

from dataclasses import dataclass

from host_tools.flash.manifest import Missing

FIP = "fip.bin"
CERTIFICATE = "-cert"  # suffix of fiptool's names of certificates
TRACES = ".sgtr"
REQUEST = "request.bin"  # a mailbox with a trace (baremetal/mailbox.h)
ARMSTUB = "armstub8-gramophone.bin"
CONFIG = "config.txt"
KERNEL = "kernel8.img"
PARKED = bytes.fromhex("5f2003d5 ffffff17")  # a kernel that waits forever: 1: wfe; b 1b
FLASH_SCRIPT = "flash.sh"
TA_KEY = "ta_key.pem"
CORE = {"tos-fw": "tee-header_v2.bin", "tos-fw-extra1": "tee-pager_v2.bin", "tos-fw-extra2": "tee-pageable_v2.bin"}
# TF-A 2.12, plat/hisilicon/hikey960/include/platform_def.h: BL31_BASE, BL31_LIMIT
HIKEY960_BL31, HIKEY960_BL31_BYTES = 0x1AC58000, 0x40000


@dataclass(frozen=True)
class Layout:
    """What an image of a platform is.

    Attributes:
        container: "archive", "flash" or "card".
        firmware: pieces that hold the replayer, in the order in which they lie in memory.
        needed: pieces that the board does not boot without; those of other partitions are never in the image.
    """

    container: str
    firmware: tuple[str, ...]
    needed: tuple[Missing, ...] = ()


LAYOUTS = {
    "qemu-virt": Layout("flash", ("firmware.bin",)),
    "rpi4": Layout(
        "card",
        (ARMSTUB,),
        (
            Missing(
                "start4.elf", "the VideoCore's firmware, Raspberry Pi's own: the card does not boot without it"
            ),
            Missing("fixup4.dat", "goes with start4.elf: the card does not boot without it"),
            Missing(
                REQUEST, "the request that the firmware serves, made of --trace: without it it answers REQUEST"
            ),
        ),
    ),
    "hikey960": Layout(
        "archive",
        (f"{FIP}/soc-fw",),
        (
            Missing(f"{FIP}/scp-fw", "lpm3.img of the board's owner (--fip): TF-A's BL2 stops without it"),
            Missing(f"{FIP}/nt-fw", "BL33, here the request made of --trace: TF-A's BL2 stops without it"),
            Missing("partition ptable", "prm_ptable.img of the board's owner, unless the board has it"),
            Missing("partition xloader", "sec_xloader.img of the board's owner, unless the board has it"),
            Missing(
                "partition fastboot", "l-loader.bin (TF-A's BL1 and BL2) of the board's owner, unless it has it"
            ),
        ),
    ),
    "optee": Layout(
        "archive",
        tuple(CORE.values()),
        (
            Missing(f"{FIP}/soc-fw", "TF-A's BL31 of the board: give the board's own package with --fip"),
            Missing(f"{FIP}/nt-fw", "the normal world's boot loader: give the board's own package with --fip"),
        ),
    ),
}
