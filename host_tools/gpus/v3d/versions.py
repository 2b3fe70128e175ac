# SPDX-License-Identifier: BSD-2-Clause
"""What differs between the versions of the V3D in code and lists; registers are in their profiles.

vgpu/v3d_version.h is the same for the virtual GPU, and has the sources.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Version:
    """A version.

    Attributes:
        number: enum v3d_version of vgpu/v3d_version.h.
        has_accumulators: code has them, and workgroup x and y are in rf0; else in rf3.
        clear_bytes: size of the packet that clears; of one byte, it clears the render targets.
        has_target_packet: a render target's configuration is one packet, with its clear colour.
    """

    number: int
    has_accumulators: bool
    clear_bytes: int
    has_target_packet: bool


# By profile.
VERSIONS = {
    "v3d42": Version(42, has_accumulators=True, clear_bytes=2, has_target_packet=False),
    "v3d71": Version(71, has_accumulators=False, clear_bytes=1, has_target_packet=True),
}
