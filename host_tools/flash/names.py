# SPDX-License-Identifier: BSD-2-Clause
"""Names in images: their pieces and containers. What a board's image is made of: baremetal/boards/NAME.toml."""

# Kind of image (tee_replayer/generator/boards.py) -> what it is written as.
CONTAINERS = {"flash": "flash", "card": "card", "bl31": "archive", "fit": "archive", "optee": "archive"}

FIP = "fip.bin"
FIT = "gramophone.itb"
FIRMWARE_PART = "firmware"  # of a FIT, besides the request
IDBLOADER = (
    "idbloader.img"  # DRAM's initialisation and U-Boot's SPL, as Rockchip's boot ROM reads them from a card
)
CERTIFICATE = "-cert"  # how fiptool's names of certificates end
TRACES = ".sgtr"
REQUEST = "request.bin"  # a mailbox with a trace (docs/FORMAT-DEVICE.md)
REQUEST_HEAD = "request.head"  # makes it a file of the kernel's initial RAM disk
INITRD = "initrd.img"
ARMSTUB = "armstub8-gramophone.bin"
CONFIG = "config.txt"
KERNEL = "kernel8.img"
PARKED = bytes.fromhex("5f2003d5 ffffff17")  # a kernel that waits forever: 1: wfe; b 1b
# Of config.txt: before the mailbox's, and after it.
CARD_LINES = (
    "# Gramophone: only an armstub starts at EL3, at address 0.",
    "arm_64bit=1",
    f"armstub={ARMSTUB}",
    "enable_gic=1",
    "# UART 0 on pins 14 and 15.",
    "enable_uart=1",
    "dtoverlay=disable-bt",
)
KERNEL_LINES = ("# The normal world, after the replay.", f"kernel={KERNEL}", "")
# Of Raspberry Pi's boot partition, besides start4.elf and fixup4.dat; each is taken where the folder has it.
BOOT_FIRMWARE = ("start4.elf", "fixup4.dat", "bcm2711-rpi-4-b.dtb", "overlays/disable-bt.dtbo")
FLASH_SCRIPT = "flash.sh"
BL1 = "bl1.bin"  # of QEMU's machine "virt", besides the package
TA = "905abb08-b3d9-44d5-beaf-defaa4f2fb9e.ta"  # as tee_replayer/optee/ta/Makefile names it
TA_KEY = "ta_key.pem"
CORE = {"tos-fw": "tee-header_v2.bin", "tos-fw-extra1": "tee-pager_v2.bin", "tos-fw-extra2": "tee-pageable_v2.bin"}


def mailbox_lines(where: str) -> tuple[str, str]:
    """Lines of config.txt that have files loaded at the mailbox's address."""
    return "# The mailbox.", f"initramfs {where}"
