# SPDX-License-Identifier: BSD-2-Clause
"""The section of the firmware that the driver shares with it: where control blocks, inputs and outputs lie.

Layout: Linux 6.12 drivers/gpu/drm/panthor/panthor_fw.h; addresses as in Debian's file for architecture 10.8.
"""

from __future__ import annotations

from collections.abc import Iterator

SHARED, SHARED_PAGES = 0x0400_0000, 12
GROUPS, STREAMS_OF_A_GROUP, GROUP_STRIDE, STREAM_STRIDE = 8, 8, 0xA0, 0xC
GLOBAL_INPUT, GROUP_INPUT, STREAM_INPUT = SHARED + 0x2000, SHARED + 0x3000, SHARED + 0x3400
OUTPUTS = 0x4000  # an output block lies so far behind its input block
RING_INPUT, RING_OUTPUT = SHARED + 0xB000, SHARED + 0xB080


def control_blocks() -> Iterator[tuple[int, tuple[int, ...]]]:
    """What the firmware's file has in the shared section: addresses, and words there. They say where inputs and
    outputs of all groups and streams are."""
    yield SHARED + 8, (GLOBAL_INPUT, GLOBAL_INPUT + OUTPUTS, GROUPS, GROUP_STRIDE)
    for group in range(GROUPS):
        control = SHARED + 0x1000 + GROUP_STRIDE * group
        yield control + 4, (GROUP_INPUT + 0x80 * group, GROUP_INPUT + OUTPUTS + 0x80 * group)
        yield control + 0x14, (STREAMS_OF_A_GROUP, STREAM_STRIDE)
        for stream in range(STREAMS_OF_A_GROUP):
            place = STREAM_INPUT + 0x400 * group + 0x80 * stream
            yield control + 0x40 + STREAM_STRIDE * stream + 4, (place, place + OUTPUTS)
