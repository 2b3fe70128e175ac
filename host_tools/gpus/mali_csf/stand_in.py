# SPDX-License-Identifier: BSD-2-Clause
"""A file in place of the firmware's, for replayers on the virtual GPU, which runs no firmware.

It has what the contract needs of the real file: the container's header, code and a shared section with its control
block.
"""

from __future__ import annotations

import struct

from host_tools.gpus.mali_csf.shared_section import SHARED, SHARED_PAGES, control_blocks
from tee_replayer.generator.gpu_firmware import ENTRY, EXECUTABLE, HEADER, MAGIC, WRITABLE
from tee_replayer.generator.gpu_firmware import SHARED as IS_SHARED
from trace_format.schema import PAGE_BYTES

READABLE, INTERFACE = 1, 0x01010000
CODE = 0x00800000


def stand_in() -> bytes:
    """The file."""
    shared = bytearray(SHARED_PAGES * PAGE_BYTES)
    for va, words in control_blocks():
        struct.pack_into(f"<{len(words)}I", shared, va - SHARED, *words)
    code = b"no instruction is run".ljust(64, b"\0")
    rows = [(READABLE | EXECUTABLE, CODE, 2 * PAGE_BYTES, code)]
    rows.append((READABLE | WRITABLE | IS_SHARED, SHARED, len(shared), bytes(shared).rstrip(b"\0")))
    table = HEADER.size + ENTRY.size * len(rows)
    entries, data = b"", b""
    for flags, va, size, content in rows:
        at = table + len(data)
        entries += ENTRY.pack(ENTRY.size << 8, flags, va, va + size, at, at + len(content))
        data += content
    return HEADER.pack(MAGIC, 0, 0, 0, INTERFACE, 0, table) + entries + data
