# SPDX-License-Identifier: BSD-2-Clause
"""An image that was damaged or tampered with is named by `flash --check`."""

from __future__ import annotations

import contextlib
import functools
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.cli import main
from host_tools.flash.containers import take_apart
from host_tools.flash.errors import ImageError
from host_tools.flash.manifest import NAME
from host_tools.flash.pack import Sources, pack
from host_tools.runners import firmware
from tests.support import replayer_samples as s
from tests.support.image_samples import STRANGER, Packed, checked, device_of, reasons


def in_firmware(p: Packed) -> bytes:
    return p.flipped(p.image.index(b"GRDEVICE") - 64)


def key_replaced(p: Packed) -> bytes:
    at = p.image.index(b"GRDEVICE")
    return p.changed(at, replace(device_of(p), key=STRANGER.public).encoded)


def version_lowered(p: Packed) -> bytes:
    return p.changed(p.image.index(b"GRDEVICE"), replace(device_of(p), min_security_version=7).encoded)


def other_profile(p: Packed) -> bytes:
    return p.changed(p.image.index(b"GRDEVICE"), replace(device_of(p), profile_id=5).encoded)


def less_memory(p: Packed) -> bytes:
    return p.changed(p.image.index(b"GRDEVICE"), replace(device_of(p), carveout_bytes=4096).encoded)


# What is done to an image of any platform -> what is reported.
TAMPERINGS: dict[str, tuple[Callable[[Packed], bytes], str]] = {
    "a byte of the firmware": (in_firmware, ": sha256: expected "),
    "the device's key replaced": (key_replaced, "the device's key: expected "),
    "the device's key, and its traces": (key_replaced, "the device refuses this trace: signed by an unknown key"),
    "the device's key, and the manifest": (key_replaced, "gramophone.json: key_id, which the image's bytes say"),
    "a byte of the device's key": (
        lambda p: p.flipped(p.image.index(b"GRDEVICE") + 60),
        "the device's key is not a point of P-256",
    ),
    "the device's key id": (
        lambda p: p.flipped(p.image.index(b"GRDEVICE") + 32),
        "id of the device's key: expected ",
    ),
    "the lowest security version": (
        version_lowered,
        "min_security_version, which the image's bytes say: expected 7",
    ),
    "the GPU profile": (other_profile, "profile_id, which the image's bytes say: expected 0x0000000000000005"),
    "the carve-out's size": (
        less_memory,
        "the device refuses this trace: secure memory: expected at most 4096 bytes, which the device has, found ",
    ),
    "no device": (lambda p: p.flipped(p.image.index(b"GRDEVICE")), "no firmware of ours"),
    "a byte of the trace's head": (lambda p: p.flipped(p.place("net.sgtr") + 300), "net.sgtr at "),
    "the trace's signature": (
        lambda p: p.flipped(p.place("net.sgtr") + 80),
        "the device refuses this trace: the signature of key",
    ),
    "the trace's last byte": (lambda p: p.flipped(p.place("net.sgtr") + size_of(p, "net.sgtr") - 1), "net.sgtr"),
    "the manifest's key id": (lambda p: p.claimed(key_id="0" * 32), "gramophone.json: key_id"),
    "the manifest's version": (
        lambda p: p.claimed(min_security_version=9),
        "gramophone.json: min_security_version",
    ),
    "the manifest's GPU": (
        lambda p: p.claimed(gpu=p.manifest.gpu[:-1] + "x"),
        "gramophone.json: gpu, which the image's bytes say",
    ),
    "a hash in the manifest": (
        lambda p: p.claimed(pieces=(replace(p.manifest.pieces[0], sha256="0" * 64), *p.manifest.pieces[1:])),
        ": sha256: expected 0000",
    ),
    "a trace's signer in the manifest": (
        lambda p: p.claimed(traces=(replace(p.manifest.traces[0], key_id="f" * 32),)),
        "net.sgtr: key_id: expected ffff",
    ),
    "blanks in the manifest": (lambda p: p.flipped(p.offset(NAME) + 2), "gramophone.json at 0x"),
    "the manifest's end": (
        lambda p: p.flipped(p.offset(NAME) + len(p.manifest.encode()) - 1),
        "gramophone.json",
    ),
}


def size_of(p: Packed, piece: str) -> int:
    return next(row.bytes for row in p.manifest.pieces if row.name == piece)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_is_named(packed: Packed, name: str) -> None:
    change, reason = TAMPERINGS[name]
    image = change(packed)
    assert image != packed.image
    found = checked(image)
    assert any(reason in text for text in reasons(found)), reasons(found)


def test_whoever_packs_anew_is_known_by_the_key_alone(tmp_path: Path) -> None:
    """The manifest is not signed: an image of a stranger's firmware is consistent, and of another key."""
    line = f"generate --gpu v3d42 --platform qemu-virt --key {tmp_path}/pub.pem -o {tmp_path}/out"
    (tmp_path / "pub.pem").write_bytes(STRANGER.public.pem())
    assert CliRunner().invoke(main, shlex.split(line)).exit_code == 0
    firmware.compile_firmware(tmp_path / "out")
    image, _ = pack(tmp_path / "out", Sources())
    assert checked(image, None).ok
    assert not checked(image, s.KEY).ok


@given(st.data())
@settings(max_examples=60)
def test_every_flipped_bit_is_noticed(images: Callable[[str], Packed], data: st.DataObject) -> None:
    """But for the manifest's `tool`, which is a claim."""
    packed = images(data.draw(st.sampled_from(["qemu-virt", "hikey960"])))
    tool = packed.image.index(b'"tool": "') + 9
    end = tool + len(packed.manifest.tool)
    at = data.draw(st.integers(0, len(packed.image) - 1).filter(lambda at: not tool <= at < end))
    image = packed.flipped(at, data.draw(st.integers(0, 7)))
    with contextlib.suppress(ImageError):  # not an image of ours any more
        assert not checked(image).ok


FIP_TAMPERINGS = {
    "size of an image": (16 + 24, "fip.bin at 0x"),
    "size of the package": (16 + 2 * 40 + 16, "FIP end marker: size of the package: expected "),
    "magic": (0, "FIP header, name: expected 010064aa"),
}


@pytest.mark.parametrize("name", FIP_TAMPERINGS)
def test_a_damaged_package_is_named(images: Callable[[str], Packed], name: str) -> None:
    packed = images("hikey960")
    at, reason = FIP_TAMPERINGS[name]
    found = checked(packed.flipped(packed.place("fip.bin") + at))
    assert any(reason in text for text in reasons(found)), reasons(found)


def entry_of(p: Packed, name: bytes) -> int:
    """Offset of a file's entry in the card's root folder."""
    return p.image.index(name.ljust(11))


FAT_AT = (1 << 20) + 32 * 512
CARD_TAMPERINGS: dict[str, tuple[Callable[[Packed], bytes], str]] = {
    "size of a file": (
        lambda p: p.flipped(entry_of(p, b"ARMSTU~1BIN") + 29, 2),
        "FAT: size of armstub8-gramophone.bin",
    ),
    "a smaller file": (lambda p: p.flipped(entry_of(p, b"ARMSTU~1BIN") + 28), "armstub8-gramophone.bin"),
    "first cluster": (lambda p: p.flipped(entry_of(p, b"ARMSTU~1BIN") + 26, 1), "FAT: "),
    "one table": (lambda p: p.flipped(FAT_AT + 4 * 5), "FAT: the second table is not like the first one"),
    "sectors of the file system": (lambda p: p.flipped((1 << 20) + 32), "FAT: sectors: expected 131072"),
    "sectors of a table": (lambda p: p.flipped((1 << 20) + 36 + 3), "FAT: sectors of a table"),
    "cluster size": (lambda p: p.flipped((1 << 20) + 13, 1), "FAT: sectors in a cluster"),
    "the partition's type": (lambda p: p.flipped(450), "at offset 0x1c2: partition table, type: expected 0c"),
    "the partition's sectors": (
        lambda p: p.flipped(458),
        "partition table, sectors: expected 131072, found 131073",
    ),
    "room before the partition": (lambda p: p.flipped(5000), "at offset 0x1388: room before the partition"),
    "an unused cluster": (lambda p: p.flipped(len(p.image) - 1), "the image: sha256 of all but gramophone.json"),
    "a time stamp": (lambda p: p.flipped(entry_of(p, b"ARMSTU~1BIN") + 22), "the image: sha256 of all but"),
    "cut": (lambda p: p.image[:-512], "partition table, sectors"),
}


@pytest.mark.parametrize("name", CARD_TAMPERINGS)
def test_a_damaged_card_is_named(images: Callable[[str], Packed], name: str) -> None:
    change, reason = CARD_TAMPERINGS[name]
    try:
        texts = reasons(checked(change(images("rpi4"))))
    except ImageError as error:
        texts = [str(error)]
    assert any(reason in text for text in texts), texts


@given(st.data())
@settings(max_examples=50)
def test_a_card_with_noise_is_read_or_refused(images: Callable[[str], Packed], data: st.DataObject) -> None:
    """In the boot sector, the start of the tables, the root folder."""
    card = writable(images("rpi4"))
    root = card.index(b"CONFIG  TXT") - 64
    start, size = data.draw(st.sampled_from([(1 << 20, 512), (FAT_AT, 64), (FAT_AT + 2048, 600), (root, 600)]))
    noise = data.draw(st.binary(min_size=1, max_size=32))
    at = start + data.draw(st.integers(0, size))
    before = card[at : at + len(noise)]
    card[at : at + len(noise)] = noise
    with contextlib.suppress(ImageError):
        assert take_apart(bytes(card)).kind == "card"
    card[at : at + len(noise)] = before


@functools.cache
def writable(packed: Packed) -> bytearray:
    """An image to be changed and changed back, since it is large."""
    return bytearray(packed.image)
