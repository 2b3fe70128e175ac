# SPDX-License-Identifier: BSD-2-Clause
"""The initramfs archives: what is written is read back, and by another program too."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.machine.cpio import Archive, Entry, parse

NAME = st.text("abcXYZ019._-+", min_size=1, max_size=9).filter(lambda name: name not in (".", ".."))
# Files in one folder and links in another, so that no path is a file and a folder at once.
FILES = st.dictionaries(NAME, st.tuples(st.binary(max_size=70), st.sampled_from([0o644, 0o755])), max_size=6)
LINKS = st.dictionaries(NAME, st.text("ab/.", min_size=1, max_size=9), max_size=3)


def build(files: dict[str, tuple[bytes, int]], links: dict[str, str]) -> Archive:
    archive = Archive()
    for name, (data, mode) in files.items():
        archive.add_file(f"files/{name}", data, mode)
    for name, target in links.items():
        archive.add_link(f"links/{name}", target)
    return archive


@given(FILES, LINKS)
def test_what_is_written_is_read_back(files: dict[str, tuple[bytes, int]], links: dict[str, str]) -> None:
    archive = build(files, links)
    blob = archive.to_bytes()
    assert len(blob) % 4 == 0
    assert parse(blob) == archive.entries
    found = {path: entry for path, entry in parse(blob).items() if stat.S_ISREG(entry.mode)}
    assert found == {f"files/{name}": Entry(stat.S_IFREG | mode, data) for name, (data, mode) in files.items()}


@given(FILES)
def test_order_of_adding_does_not_matter(files: dict[str, tuple[bytes, int]]) -> None:
    assert build(files, {}).to_bytes() == build(dict(reversed(files.items())), {}).to_bytes()


def test_folders_come_before_what_is_in_them() -> None:
    archive = Archive()
    archive.add_file("usr/lib/x/deep", b"")
    archive.add_file("usr/lib-more", b"")
    order = list(parse(archive.to_bytes()))
    assert all(order.index(str(Path(path).parent)) < order.index(path) for path in order if "/" in path)


def test_a_later_archive_replaces_files_of_an_earlier_one() -> None:
    first, second = build({"a": (b"old", 0o644), "b": (b"kept", 0o644)}, {}), build({"a": (b"new", 0o755)}, {})
    entries = parse(first.to_bytes() + second.to_bytes())
    assert entries["files/a"] == Entry(stat.S_IFREG | 0o755, b"new")
    assert entries["files/b"].data == b"kept"


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", "."])
def test_paths_that_lead_out_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="relative and plain"):
        Archive().add_file(path, b"")


GOOD = build({"f": (b"data", 0o644)}, {}).to_bytes()


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"070702" + GOOD[6:], "offset 0"),
        (GOOD[:50], "offset 0"),
        (GOOD[:14] + b"zz" + GOOD[16:], "not hexadecimal"),
        (GOOD[: GOOD.index(b"data") + 2], "wants"),
        (GOOD + b"junk", f"offset {len(GOOD)}"),
        (b"070701" + b"00000000" * 13, "offset 0 wants"),
    ],
    ids=["magic", "short header", "not hexadecimal", "short data", "junk after the end", "no name"],
)
def test_malformed_archives(blob: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(blob)


def test_gnu_cpio_unpacks_it(tmp_path: Path) -> None:
    if shutil.which("cpio") is None:
        pytest.skip("GNU cpio is missing: apt-get install cpio")
    archive = build({"run": (b"#!/bin/sh\n", 0o755), "text": (b"x" * 5, 0o644)}, {"link": "../files/text"})
    subprocess.run(["cpio", "-i", "--quiet"], input=archive.to_bytes(), cwd=tmp_path, check=True)
    assert (tmp_path / "files/text").read_bytes() == b"x" * 5
    assert stat.S_IMODE((tmp_path / "files/run").stat().st_mode) == 0o755
    assert os.readlink(tmp_path / "links/link") == "../files/text"
