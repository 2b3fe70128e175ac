# SPDX-License-Identifier: BSD-2-Clause
"""Page tables of a Mali with command streams: as of other Malis, but the GPU's address space 0 is no trace's."""

from __future__ import annotations

from host_tools.gpus.mali.page_tables import MaliTables
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

RING = 1 << 47  # GPU address from which on a driver has its ring; no recording maps anything there
SPACE = 0  # of traces: the only one that they have
# Ring, interface and buffers; firmware of up to a megabyte (Debian's file has 176 or 224 pages); tables for all.
DRIVERS_PAGES = 36 + 256 + 3 * (8 + 3)
FIRMWARE = 7  # what the GPU calls 0, its microcontroller's; no trace maps anything there


class CsfTables(MaliTables):
    """See `MaliTables`."""

    def hardware(self, space: int) -> int:
        """The next one, so that no number of a trace is the microcontroller's; after the last comes 0."""
        return (space + 1) % self.profile.address_spaces

    @classmethod
    def device_bytes(cls, trace: Trace) -> int:
        """And the pages that the nano driver has for itself (tee_replayer/drivers/mali_g610.c)."""
        return super().device_bytes(trace) + DRIVERS_PAGES * PAGE_BYTES
