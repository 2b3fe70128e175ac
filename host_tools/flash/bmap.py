# SPDX-License-Identifier: BSD-2-Clause
"""Block maps of card images, for bmaptool: it writes only the mapped blocks to a card, and checks their hash.

Everything up to the end of the last file is mapped, zeros too: the tables of the file system must be free of what
was on the card before. What follows are free clusters, which nothing reads.

Facts: version 2.0 of the format, as bmaptool 3.6 reads it (BmapCopy.py) and comments it in the files it makes
(BmapCreate.py).
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from host_tools.flash import sdcard
from host_tools.flash.contents import Finding
from host_tools.flash.recompute import first_difference
from trace_format import limits
from trace_format.files import read_file

BLOCK_BYTES = 4096
_NO_HASH = "0" * 64  # of the file itself, while it is computed
_SHOWN_BYTES = 24  # of two places that differ


def beside(image: Path) -> Path:
    """Where bmaptool looks for an image's block map."""
    return image.with_name(f"{image.name}.bmap")


def encode(image: bytes) -> bytes:
    """The block map of a card's image; the same image always gives the same bytes."""
    mapped = -(-sdcard.used_bytes(image) // BLOCK_BYTES)
    digest = sha256(image[: mapped * BLOCK_BYTES]).hexdigest()
    blocks = -(-len(image) // BLOCK_BYTES)
    text = f"""<?xml version="1.0" ?>
<bmap version="2.0">
    <ImageSize> {len(image)} </ImageSize>
    <BlockSize> {BLOCK_BYTES} </BlockSize>
    <BlocksCount> {blocks} </BlocksCount>
    <MappedBlocksCount> {mapped} </MappedBlocksCount>
    <ChecksumType> sha256 </ChecksumType>
    <BmapFileChecksum> {_NO_HASH} </BmapFileChecksum>
    <BlockMap>
        <Range chksum="{digest}"> 0-{mapped - 1} </Range>
    </BlockMap>
</bmap>
"""
    return text.replace(_NO_HASH, sha256(text.encode()).hexdigest(), 1).encode()


def check(path: Path, image: bytes) -> list[Finding]:
    """What of an image's block map is not as packing makes it; OSError where it cannot be read."""
    found, expected = read_file(path, limits.SMALL_BYTES), encode(image)
    if found == expected:
        return []
    at = first_difference(found, expected)
    right, wrong = (_shown(data[at : at + _SHOWN_BYTES]) for data in (expected, found))
    return [Finding(path.name, at, "is not the block map of this image", right, wrong)]


def _shown(text: bytes) -> str:
    return repr(text)[1:] if text else "the end"
