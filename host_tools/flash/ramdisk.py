# SPDX-License-Identifier: BSD-2-Clause
"""A request as a file of Linux's initial RAM disk, so that the kernel behind the firmware can read the answer.

An initial RAM disk may be several archives one after the other (Linux Documentation/driver-api/early-userspace/
buffer-format.rst). The first one here is the head and the request: the head ends where the mailbox begins.
"""

from __future__ import annotations

from host_tools.machine.cpio import Archive

ANSWER, TEXT = "gramophone.answer", "gramophone.txt"  # in the root of the RAM disk
WORDS = f"{ANSWER}: the request that the firmware served, with the answer in it (docs/FORMAT-DEVICE.md)\n"
PAGE = 4096


def head(request: bytes) -> bytes:
    """What lies before a request in memory: one page, so that both begin at a page.

    Args:
        request: its size is a multiple of 4.
    """
    last = _entry(ANSWER, request)[: -len(request)]
    empty = len(_entry(TEXT, b""))
    return _entry(TEXT, WORDS.encode().ljust(PAGE - empty - len(last))) + last


def _entry(name: str, data: bytes) -> bytes:
    """A file of an archive, without the archive's end."""
    archive = Archive()
    archive.add_file(name, data)
    return archive.to_bytes()[: -len(Archive().to_bytes())]
