# SPDX-License-Identifier: BSD-2-Clause
"""Names in images: their pieces and containers. What a board's image is made of: baremetal/boards/NAME.toml."""

# Kind of image (tee_replayer/boards.py) -> what it is written as.
CONTAINERS = {"flash": "flash", "card": "card", "bl31": "archive", "optee": "archive"}

FIP = "fip.bin"
CERTIFICATE = "-cert"  # how fiptool's names of certificates end
TRACES = ".sgtr"
REQUEST = "request.bin"  # a mailbox with a trace (docs/FORMAT-DEVICE.md)
ARMSTUB = "armstub8-gramophone.bin"
CONFIG = "config.txt"
KERNEL = "kernel8.img"
PARKED = bytes.fromhex("5f2003d5 ffffff17")  # a kernel that waits forever: 1: wfe; b 1b
FLASH_SCRIPT = "flash.sh"
TA_KEY = "ta_key.pem"
CORE = {"tos-fw": "tee-header_v2.bin", "tos-fw-extra1": "tee-pager_v2.bin", "tos-fw-extra2": "tee-pageable_v2.bin"}
