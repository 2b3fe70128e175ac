# SPDX-License-Identifier: BSD-2-Clause
"""FIT images: what is built is read back, by U-Boot's dumpimage too; malformed ones are named with an offset."""

from __future__ import annotations

import contextlib
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.flash import fit
from host_tools.flash.errors import ImageError

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-", min_size=1, max_size=20)
OTHERS = st.dictionaries(
    NAMES.filter(lambda name: name != "firmware"),
    st.builds(fit.Image, st.binary(max_size=200), st.integers(0, 2**32 - 1)),
    max_size=4,
)
SAMPLE = fit.build(
    {
        "firmware": fit.Image(b"abc" * 20, 0x40040000, is_firmware=True),
        "request.bin": fit.Image(b"d" * 9, 0x50000000),
    }
)


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1), OTHERS)
def test_what_is_built_is_read_back(data: bytes, load: int, others: dict[str, fit.Image]) -> None:
    images = {"firmware": fit.Image(data, load, is_firmware=True), **others}
    built = fit.build(images)
    found = fit.parse(built)
    for name, image in images.items():
        assert (found[name].data, found[name].load, found[name].is_firmware) == (
            image.data,
            image.load,
            image.is_firmware,
        )
        assert built[found[name].offset :].startswith(image.data)
    assert list(found) == list(images)


def test_u_boots_own_tool_reads_it(tmp_path: Path) -> None:
    """With its hashes, which it computes itself."""
    file = tmp_path / "gramophone.itb"
    file.write_bytes(SAMPLE)
    said = subprocess.run(["dumpimage", "-l", file], check=True, capture_output=True, text=True).stdout
    for line in (
        "Image 0 (firmware)",
        "ARM Trusted Firmware",
        "Load Address: 0x40040000",
        "Load Address: 0x50000000",
    ):
        assert line in said
    assert "Firmware:     firmware\n  Loadables:    request.bin" in said
    for index, data in enumerate((b"abc" * 20, b"d" * 9)):
        out = tmp_path / str(index)
        subprocess.run(
            ["dumpimage", "-T", "flat_dt", "-p", str(index), "-o", out, file], check=True, capture_output=True
        )
        assert out.read_bytes() == data


def test_the_hash_is_of_the_bytes(tmp_path: Path) -> None:
    """As `fit_check_sign` and the SPL compute it: another byte is another hash."""
    file = tmp_path / "gramophone.itb"
    file.write_bytes(SAMPLE)
    command = ["fdtget", "-t", "bx", str(file), "/images/firmware/hash-1", "value"]
    stored = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert bytes(int(word, 16) for word in stored.split()).hex() == sha256_by_openssl(b"abc" * 20)


def sha256_by_openssl(data: bytes) -> str:
    said = subprocess.run(["openssl", "dgst", "-sha256", "-r"], input=data, check=True, capture_output=True).stdout
    return said.decode().split()[0]


@given(st.binary(max_size=400))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ImageError):
        fit.parse(data)


@given(st.integers(0, len(SAMPLE) - 1))
def test_every_truncation_is_refused(size: int) -> None:
    with pytest.raises(ImageError):
        fit.parse(SAMPLE[:size])


@given(st.integers(0, len(SAMPLE) - 1), st.binary(min_size=1, max_size=4))
def test_a_changed_one_is_read_or_refused(at: int, new: bytes) -> None:
    with contextlib.suppress(ImageError):
        fit.parse(SAMPLE[:at] + new + SAMPLE[at + len(new) :])


def word(at: int, value: int) -> bytes:
    return SAMPLE[:at] + struct.pack(">I", value) + SAMPLE[at + 4 :]


NODES = fit.NODES_AT
FIRST = NODES + 8  # the root's first property: token, size, name, text
DATA = SAMPLE.index(b"abc" * 20)
LOAD = SAMPLE.index(struct.pack(">I", 0x40040000))
MALFORMED = {
    "no tree": (word(0, 0), 0, "magic"),
    "another size": (word(4, 8), 4, "size"),
    "goes on": (SAMPLE + b"\0", 4, "size"),
    "nodes elsewhere": (word(8, 0), 8, "nodes"),
    "names elsewhere": (word(12, 0), 4, "size"),
    "another version": (word(20, 16), 20, "version"),
    "reserved memory": (word(40, 1), 43, "reserved memory"),
    "no token": (word(NODES, 7), NODES, "token"),
    "ends at once": (word(NODES, fit.LAST), NODES, "token"),
    "ends before it begins": (word(NODES, fit.END), NODES, "token"),
    "a property beyond the end": (word(FIRST + 4, 1 << 31), FIRST + 4, "size"),
    "a name beyond the names": (word(FIRST + 8, 1 << 20), None, "a name"),
    "an address of another size": (SAMPLE[: LOAD - 8] + struct.pack(">I", 3) + SAMPLE[LOAD - 4 :], LOAD, "load"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    data, offset, what = MALFORMED[name]
    with pytest.raises(ImageError, match=what) as error:
        fit.parse(data)
    if offset is not None:
        assert error.value.offset == offset


def test_an_image_without_its_bytes() -> None:
    names = SAMPLE.index(b"description\0")
    data = SAMPLE[:names] + SAMPLE[names:].replace(b"\0data\0", b"\0dat4\0")
    with pytest.raises(ImageError, match="FIT image firmware: data"):
        fit.parse(data)


def test_endless_nodes_are_refused() -> None:
    nodes = struct.pack(">II", fit.BEGIN, 0) * fit.MAX_TOKENS
    size = NODES + len(nodes)
    head = bytes(
        fit.HEADER.build(
            {"bytes": size, "nodes_at": NODES, "names_at": size, "names_bytes": 0, "nodes_bytes": len(nodes)}
        )
    )
    with pytest.raises(ImageError, match="tokens"):
        fit.parse(head + bytes(16) + nodes)
