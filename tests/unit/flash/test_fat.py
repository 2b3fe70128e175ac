# SPDX-License-Identifier: BSD-2-Clause
"""File systems as cards have them: any files are written, read back by our reader and by other programs."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.flash import fat, fat_folder, sdcard
from host_tools.flash.errors import ImageError
from host_tools.flash.fat_write import Volume, write

NAMES = st.from_regex(r"([a-z0-9]{1,8}/)?[A-Za-z0-9_-][A-Za-z0-9._-]{0,30}[a-z0-9]", fullmatch=True)
FILES = st.dictionaries(NAMES, st.binary(max_size=1200), min_size=1, max_size=8).filter(
    lambda files: (
        len({name.upper() for name in files} | {n.partition("/")[0].upper() for n in files if "/" in n})
        == len(files) + len({n.partition("/")[0] for n in files if "/" in n})
    )
)


@given(FILES)
@settings(max_examples=15)
def test_what_is_written_is_read(files: dict[str, bytes]) -> None:
    card = sdcard.write(files)
    assert sdcard.write(files) == card
    found = sdcard.read(card)
    assert {name: data for name, (_, data) in found.items()} == files
    assert all(card[at : at + len(data)] == data for at, data in found.values())


@given(FILES)
@settings(max_examples=5)
def test_other_programs_read_it(files: dict[str, bytes]) -> None:
    """fsck.fat finds nothing to repair; mtools give the same files under the same names."""
    fsck = shutil.which("fsck.fat", path="/usr/bin:/bin:/usr/sbin:/sbin")
    assert fsck
    assert shutil.which("mtype")
    with tempfile.TemporaryDirectory() as folder:
        partition = Path(folder) / "partition"
        partition.write_bytes(sdcard.write(files)[sdcard.FIRST_SECTOR * sdcard.SECTOR_BYTES :])
        done = subprocess.run([fsck, "-n", str(partition)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
        for name, data in files.items():
            copy = Path(folder) / "copy"
            subprocess.run(["mcopy", "-n", "-o", "-i", str(partition), f"::{name}", str(copy)], check=True)
            assert copy.read_bytes() == data


def test_short_names_are_different() -> None:
    """More long names than one digit can tell apart."""
    files = {f"same-name-{number}.sgtr": bytes([number]) for number in range(1, 30)}
    card = sdcard.write(files)
    assert {name: data for name, (_, data) in sdcard.read(card).items()} == files
    assert b"SAME-N~1SGT" in card
    assert b"SAME-~29SGT" in card


def test_the_checksum_of_a_long_name() -> None:
    """As mtools gives it for README~1.TXT; the algorithm is that of the specification."""
    total = 0
    for byte in b"README~1TXT":
        total = ((total >> 1) | (total & 1) << 7) + byte & 0xFF
    assert fat_folder.checksum(b"README~1TXT") == total
    entries = fat_folder.long_entries("readme-first.txt", b"README~1TXT")
    assert [entry[0] for entry in entries] == [0x42, 0x01]
    assert all(entry[13] == total for entry in entries)


def test_a_volume_that_is_too_small() -> None:
    with pytest.raises(ValueError, match="clusters do not fit"):
        write({"a.bin": bytes(1 << 20)}, Volume(2048, 1024, 1, "X"))


@given(st.binary(min_size=512, max_size=2048))
@settings(max_examples=100)
def test_noise_is_no_file_system(data: bytes) -> None:
    with pytest.raises(ImageError):
        fat.read(data, 0, len(data))
