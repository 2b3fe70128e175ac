# SPDX-License-Identifier: BSD-2-Clause
"""Constants in a firmware that say what it was made for, and where it expects what."""

from __future__ import annotations

from construct import Const, Struct

from trace_format.schema.vocabulary import Blob, Format, Text, u32, u64

DEVICE_MAGIC = b"GRDEVICE"

Device = Struct(
    "magic" / Const(DEVICE_MAGIC) * "by which it is found in an image",
    "profile_id" / u64 * "register policy of the GPU, as in a manifest",
    "platform" / Text(16) * "board or environment",
    "key_id" / Blob(16) * "id of the key, as in an envelope",
    "min_security_version" / u32 * "older traces are refused",
    "key" / Blob(65) * "whose traces the device accepts: P-256 public key, 04 || x || y",
    "carveout_pages"
    / Blob(3)
    * "secure memory for traces, in pages of 4 KiB: a little-endian number; 0: the build did not say",
)

Board = Struct(
    "gpu_base" / u64 * "register window of the GPU",
    "carveout_base" / u64 * "secure memory for traces",
    "carveout_bytes" / u64 * "its size",
    "mailbox_base" / u64 * "the mailbox, and memory for what it points to",
    "mailbox_bytes" / u64 * "its size",
    "gic_base" / u64 * "the interrupt controller's distributor",
    "uart_base" / u64 * "the serial port",
    "gpu_spi"
    / u64
    * "shared peripheral interrupt of the GPU's first line; with bit 63, each line's in 16 bits, first lowest",
    "power_base" / u64 * "the block that switches the GPU on; 0: there is none",
)

DEVICE = Format(
    "device",
    "the constant that says what a device was made for",
    {"device": (Device, "what the device was made for: `gr_device`, anywhere in a firmware")},
)
BOARD = Format(
    "board",
    "the constant that says where a firmware expects what",
    {"board": (Board, "physical addresses and numbers: `gr_board`, section .gramophone.board of an ELF file")},
)
