# SPDX-License-Identifier: BSD-2-Clause
"""Block maps: read by an independent reader and by bmaptool, and compared with the image when it is checked."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from host_tools.flash import bmap, sdcard

FILES = {"kernel8.img": b"k" * 5000, "overlays/a.dtbo": b"o" * 10, "net.sgtr": bytes(range(256)) * 40}
IMAGE = sdcard.write(FILES)
BEFORE = 0xA5  # what each byte of a card was, before


def number(root: ET.Element, name: str) -> int:
    return int(text(root, name))


def text(root: ET.Element, name: str) -> str:
    found = root.findtext(name)
    assert found is not None, name
    return found.strip()


def mapped(data: bytes, image: bytes) -> list[tuple[int, int]]:
    """An independent reader of the format: start and end of each mapped range; all that it says is checked."""
    root = ET.fromstring(data)
    assert (root.tag, root.attrib) == ("bmap", {"version": "2.0"})
    assert number(root, "ImageSize") == len(image)
    size = number(root, "BlockSize")
    assert number(root, "BlocksCount") == -(-len(image) // size)
    assert text(root, "ChecksumType") == "sha256"
    own = text(root, "BmapFileChecksum")
    assert hashlib.sha256(data.replace(own.encode(), b"0" * 64)).hexdigest() == own
    ranges, count = [], 0
    for item in root.iterfind("BlockMap/Range"):
        first, _, last = (item.text or "").strip().partition("-")
        start, end = int(first) * size, min((int(last or first) + 1) * size, len(image))
        assert hashlib.sha256(image[start:end]).hexdigest() == item.attrib["chksum"]
        ranges.append((start, end))
        count += int(last or first) - int(first) + 1
    assert ranges
    assert ranges == sorted(ranges)
    assert number(root, "MappedBlocksCount") == count
    return ranges


def written(data: bytes) -> bytes:
    """A card to which only the mapped ranges were written."""
    card = bytearray([BEFORE]) * (len(IMAGE) + 5000)
    for start, end in mapped(data, IMAGE):
        card[start:end] = IMAGE[start:end]
    return bytes(card)


def test_only_what_is_used_is_mapped() -> None:
    data = bmap.encode(IMAGE)
    assert data == bmap.encode(IMAGE)
    ranges = mapped(data, IMAGE)
    assert sum(end - start for start, end in ranges) < len(IMAGE) // 16
    last = max(at + len(contents) for at, contents in sdcard.read(IMAGE).values())
    assert last <= ranges[-1][1] < last + bmap.BLOCK_BYTES
    assert not any(IMAGE[ranges[-1][1] :])


def test_a_card_written_with_it_is_read_back() -> None:
    """Whatever was on it before: in the tables and before the partition there is none of it."""
    card = written(bmap.encode(IMAGE))
    assert card[: len(IMAGE)] != IMAGE
    assert sdcard.of_disk(io.BytesIO(card), "card") == IMAGE


def test_bmaptool_takes_it(tmp_path: Path) -> None:
    if shutil.which("bmaptool") is None:
        pytest.skip("bmaptool is missing: apt-get install bmap-tools")
    image = tmp_path / "card.img"
    image.write_bytes(IMAGE)
    bmap.beside(image).write_bytes(bmap.encode(IMAGE))
    command = ["bmaptool", "copy", str(image), str(tmp_path / "card")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "block map format version 2.0" in done.stdout + done.stderr
    assert (tmp_path / "card").read_bytes() == IMAGE
    damaged = bytearray(IMAGE)
    damaged[sdcard.read(IMAGE)["net.sgtr"][0]] ^= 1
    image.write_bytes(damaged)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "checksum mismatch" in done.stderr


TAMPERINGS: dict[str, Callable[[bytes], bytes]] = {
    "a block less": lambda data: data.replace(b"> 0-", b"> 1-"),
    "its own hash": lambda data: data.replace(b"<BmapFileChecksum> ", b"<BmapFileChecksum> 0"),
    "cut": lambda data: data[:-10],
    "longer": lambda data: data + b"\n",
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_any_other_map_is_found(name: str, tmp_path: Path) -> None:
    path = tmp_path / "card.img.bmap"
    path.write_bytes(bmap.encode(IMAGE))
    assert bmap.check(path, IMAGE) == []
    path.write_bytes(TAMPERINGS[name](bmap.encode(IMAGE)))
    (finding,) = bmap.check(path, IMAGE)
    assert (finding.piece, finding.what) == ("card.img.bmap", "is not the block map of this image")


def test_the_map_of_another_image_is_found(tmp_path: Path) -> None:
    path = tmp_path / "card.img.bmap"
    path.write_bytes(bmap.encode(sdcard.write({**FILES, "net.sgtr": b"another"})))
    assert len(bmap.check(path, IMAGE)) == 1
