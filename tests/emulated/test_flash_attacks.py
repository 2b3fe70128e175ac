# SPDX-License-Identifier: BSD-2-Clause
"""Images by somebody who knows how `flash --check` works: the right key, a manifest that matches, another boot."""

from __future__ import annotations

import struct
import tarfile
from collections.abc import Callable

import pytest

from host_tools.flash import fip
from host_tools.flash.containers import File, take_apart
from host_tools.flash.errors import ImageError
from host_tools.flash.manifest import NAME
from tests.support import image_attacks as a
from tests.support.image_attacks import Files, forged
from tests.support.image_samples import Packed, checked, reasons
from tests.support.replayer_samples import KEY

EVIL = b"evil" * 64
CONFIG, STUB, START4 = b"CONFIG  TXT", b"ARMSTU~1BIN", b"START4  ELF"
Attack = Callable[[Files], bytes]


def attacked(packed: Packed, attack: Attack) -> list[str]:
    """What is reported of an attack on an image's files; the error where it is none of ours any more."""
    files = {name: file.data for name, file in take_apart(packed.image).files.items() if name != NAME}
    try:
        image = attack(files)
        assert image != packed.image
        return reasons(checked(image, KEY))
    except ImageError as error:
        return [str(error)]


def with_config(*lines: str, **more: bytes) -> Attack:
    """A card whose config.txt has more lines, and with more files."""

    def attack(files: Files) -> bytes:
        files["config.txt"] += "".join(f"{line}\n" for line in lines).encode()
        return forged("rpi4", {**files, **{name.replace("__", "."): data for name, data in more.items()}})

    return attack


def with_file(platform: str, name: str, data: bytes = EVIL) -> Attack:
    return lambda files: forged(platform, {**files, name: data})


def bare(files: Files) -> Files:
    """A card with no trace, and so with room in its root folder's first cluster."""
    config = "".join(
        line
        for line in files["config.txt"].decode().splitlines(keepends=True)
        if not line.startswith("initramfs") and "mailbox" not in line
    )
    kept = {name: data for name, data in files.items() if name not in ("request.bin", "net.sgtr")}
    return {**kept, "config.txt": config.encode()}


def edited(edit: Callable[[bytearray], None], **more: bytes) -> Attack:
    """A card without a trace, whose bytes are changed."""
    return lambda files: forged("rpi4", {**bare(files), **more}, edit)


def two_configs(files: Files) -> bytes:
    """The first is followed by the boot loader, the second is read by whoever keeps the last."""
    given = bare(files)
    good, given["config.txt"] = given["config.txt"], given["config.txt"] + b"armstub=kernel8.img\n"
    given["start4.elf"] = good

    def seen(opened: dict[str, File]) -> dict[str, File]:
        return {**{n: f for n, f in opened.items() if n != "start4.elf"}, "config.txt": opened["start4.elf"]}

    return forged("rpi4", given, lambda card: a.rename(card, START4, CONFIG, "config.txt"), seen=seen)


def two_configs_by_case(files: Files) -> bytes:
    def seen(opened: dict[str, File]) -> dict[str, File]:
        return {("CONFIG.TXT" if name == "start4.elf" else name): file for name, file in opened.items()}

    given = {**bare(files), "start4.elf": EVIL}
    return forged("rpi4", given, lambda card: a.rename(card, START4, b"CONFIG~1TXT", "CONFIG.TXT"), seen=seen)


def wrong_checksum(card: bytearray) -> None:
    """Others read only ARMSTU~1.BIN, and so the board starts in its own stub."""
    for part in a.long_entries(card, STUB):
        card[part + 13] ^= 1


def hidden_by_a_wrong_checksum(files: Files) -> bytes:
    """Whoever believes the long name sees start4.elf, others config.txt, before the one that seems to be it."""

    def edit(card: bytearray) -> None:
        a.rename(card, CONFIG, b"CONFIG~1TXT", "config.txt")
        at = a.entry_at(card, START4)
        card[at : at + 12] = CONFIG + b"\x20"

    given = {"start4.elf": EVIL, **bare(files)}
    return forged("rpi4", given, edit)


def looped(card: bytearray) -> None:
    first = a.first_cluster(card, STUB)
    a.set_link(card, first + 1, first)


def shared(card: bytearray) -> None:
    """Two files with the same clusters."""
    at = a.entry_at(card, b"KERNEL8 IMG")
    struct.pack_into("<H", card, at + 26, a.first_cluster(card, CONFIG))


def moved_long_name(card: bytearray) -> None:
    """A long name whose parts are not in order."""
    one, two = a.long_entries(card, STUB)
    card[one : one + 32], card[two : two + 32] = card[two : two + 32], card[one : one + 32]


def no_last_part(card: bytearray) -> None:
    card[a.long_entries(card, STUB)[0]] &= 0x3F


def after_the_end(card: bytearray) -> None:
    at = a.root_end(card) + 32
    card[at : at + 32] = a.long_part("config.txt", 1, CONFIG)


def byte(at: int, value: int = 0x41) -> Callable[[bytearray], None]:
    def edit(card: bytearray) -> None:
        card[at] ^= value

    return edit


def slack(card: bytearray) -> None:
    at = a.cluster_at(card, a.first_cluster(card, b"KERNEL8 IMG"))
    card[at + 500] = 0x41


def lost_cluster(card: bytearray) -> None:
    """A chain that no entry leads to."""
    a.set_link(card, 5000, 0x0FFFFFFF)


def high_bits(card: bytearray) -> None:
    """Of a table's entry, which readers have to leave out."""
    first = a.first_cluster(card, STUB)
    at = a.table_at(card) + 4 * first + 3
    card[at] |= 0x10
    card[at + a.table_bytes(card)] |= 0x10


def hidden(card: bytearray) -> None:
    card[a.entry_at(card, STUB) + 11] |= 2


def time_stamp(card: bytearray) -> None:
    card[a.entry_at(card, STUB) + 16] ^= 3


def label(short: bytes = b"CONFIG  TXT", cluster: int = 0) -> bytes:
    return short + b"\x08" + bytes(14) + struct.pack("<HI", cluster, 0)


CARD: dict[str, tuple[Attack, str]] = {
    "another armstub": (with_config("armstub=evil.bin", evil__bin=EVIL), "config.txt"),
    "another armstub in place of ours": (
        lambda files: forged(
            "rpi4",
            {
                **files,
                "config.txt": files["config.txt"].replace(b"=armstub8-gramophone.bin", b"=evil.bin"),
                "evil.bin": EVIL,
            },
        ),
        "evil.bin",
    ),
    "an extra file in config.txt": (with_config("include more.txt", more__txt=b"armstub=x\n"), "more.txt"),
    "an extra line in config.txt": (with_config("armstub=kernel8.img"), "config.txt"),
    "the request at another address": (
        lambda files: forged(
            "rpi4",
            {
                **files,
                "config.txt": files["config.txt"].replace(b"request.bin 0x10000000", b"request.bin 0x00000000"),
            },
        ),
        "config.txt",
    ),
    "line ends of config.txt": (
        lambda files: forged("rpi4", {**files, "config.txt": files["config.txt"].replace(b"\n", b"\r\n")}),
        "config.txt",
    ),
    "autoboot.txt": (with_file("rpi4", "autoboot.txt", b"[all]\nboot_partition=2\n"), "autoboot.txt"),
    "recovery.bin": (with_file("rpi4", "recovery.bin"), "recovery.bin"),
    "cmdline.txt": (with_file("rpi4", "cmdline.txt"), "cmdline.txt"),
    "another overlay": (with_file("rpi4", "overlays/evil.dtbo"), "overlays/evil.dtbo"),
    "another request": (
        lambda files: forged("rpi4", {**files, "request.bin": files["request.bin"] + bytes(4096)}),
        "request.bin",
    ),
    "an empty folder": (edited(lambda card: a.append(card, b"EMPTY      \x10" + bytes(20))), "EMPTY"),
    "two entries of one name": (two_configs, "config.txt"),
    "two entries, one in capitals": (two_configs_by_case, "CONFIG.TXT"),
    "another file's 8.3 name": (
        lambda files: forged("rpi4", files, lambda card: a.rename(card, b"NET~1   SGT", CONFIG)),
        "net.sgtr: its name in some reader, CONFIG.TXT",
    ),
    "a long name with a wrong checksum": (edited(wrong_checksum), "long name"),
    "a file hidden by a wrong checksum": (hidden_by_a_wrong_checksum, "long name"),
    "parts of a long name in another order": (edited(moved_long_name), "long name"),
    "a long name with no last part": (edited(no_last_part), "long name"),
    "a long name of no file": (
        edited(lambda card: a.append(card, a.long_part("config.txt", 1, CONFIG))),
        "long name",
    ),
    "a deleted entry": (edited(lambda card: a.append(card, b"\xe5ONFIG  TXT" + bytes(21))), "deleted"),
    "an entry after the end": (edited(after_the_end), "after the last"),
    "a second volume label": (edited(lambda card: a.append(card, label())), "label"),
    "a hidden file": (edited(hidden), "attributes"),
    "a time stamp": (edited(time_stamp), "as packing"),
    "a chain that ends in itself": (edited(looped), "chain of"),
    "two files with one chain": (edited(shared), "chain of"),
    "a chain that belongs to nothing": (edited(lost_cluster), "as packing"),
    "reserved bits in both tables": (edited(high_bits), "as packing"),
    "bytes after a file's end": (edited(slack), "as packing"),
    "an unused cluster": (edited(byte(a.PARTITION + (40 << 20))), "as packing"),
    "the boot sector's code": (edited(byte(a.PARTITION + 200)), "as packing"),
    "the boot sector's copy": (edited(byte(a.PARTITION + 6 * a.SECTOR + 44)), "as packing"),
    "a reserved sector": (edited(byte(a.PARTITION + 20 * a.SECTOR)), "as packing"),
    "the sector of free clusters": (edited(byte(a.PARTITION + a.SECTOR + 488)), "as packing"),
    "the volume's number": (edited(byte(a.PARTITION + 67)), "as packing"),
    "another first partition sector": (edited(byte(454, 1)), "partition table"),
    "a second partition": (edited(byte(466, 0x0C)), "partition table"),
    "an active partition": (edited(byte(446, 0x80)), "partition table"),
    "a GPT": (edited(byte(512)), "room before the partition"),
    "data after the partition": (edited(lambda card: card.extend(bytes(512))), "partition table, sectors"),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", CARD)
def test_a_card_that_boots_something_else(images: Callable[[str], Packed], name: str) -> None:
    attack, reason = CARD[name]
    found = attacked(images("rpi4"), attack)
    assert any(reason in text for text in found), found


def exchanged_script(files: Files) -> bytes:
    script = files["flash.sh"].replace(b"flash fip fip.bin", b"flash fip evil.bin")
    return forged("hikey960", {**files, "flash.sh": script, "evil.bin": EVIL})


def package(**images: bytes | None) -> Attack:
    """The package with other images in it."""

    def attack(files: Files) -> bytes:
        old = {name: image.data for name, image in fip.parse(files["fip.bin"]).images.items()}
        new = {**old, **{name.replace("_", "-"): data for name, data in images.items()}}
        return forged("hikey960", {**files, "fip.bin": fip.build({n: d for n, d in new.items() if d is not None})})

    return attack


def reordered(files: Files) -> bytes:
    return forged("hikey960", dict(reversed(files.items())))


def gap(files: Files) -> bytes:
    """An entry's unused flags."""
    data = bytearray(files["fip.bin"])
    data[16 + 32] = 1
    return forged("hikey960", {**files, "fip.bin": bytes(data)})


def tar(change: Callable[[tarfile.TarInfo], None], format: int = tarfile.USTAR_FORMAT) -> Attack:
    return lambda files: forged("hikey960", files, build=a.archive(change, format))


def pax_size(info: tarfile.TarInfo) -> None:
    """Readers that know no PAX headers see another file."""
    info.pax_headers = {"comment": "evil"}


def renamed_members(files: Files) -> bytes:
    return forged("hikey960", {**files, "Flash.SH": EVIL})


def after_the_archive(files: Files) -> bytes:
    """A second archive after the first one's end, which `tar --ignore-zeros` unpacks."""

    def edit(image: bytearray) -> None:
        image[-512:] = a.archive(lambda info: None)({"flash.sh": b""})[:512]

    return forged("hikey960", files, edit)


ARCHIVE: dict[str, tuple[Attack, str]] = {
    "an exchanged flash script": (exchanged_script, "flash.sh"),
    "a script that does more": (
        lambda files: forged(
            "hikey960", {**files, "flash.sh": files["flash.sh"] + b"fastboot flash ptable evil\n"}
        ),
        "flash.sh",
    ),
    "an extra file": (with_file("hikey960", "prm_ptable.img"), "prm_ptable.img"),
    "a name that differs in case": (renamed_members, "Flash.SH"),
    "a boot loader in the request's place": (package(nt_fw=EVIL), "fip.bin/nt-fw"),
    "no request": (package(nt_fw=None), "fip.bin/nt-fw"),
    "another order": (reordered, "as packing"),
    "flags of an image in the package": (gap, "fip.bin"),
    "another mode": (tar(lambda info: setattr(info, "mode", 0o4755)), "as packing"),
    "another owner": (tar(lambda info: setattr(info, "uid", 1000)), "as packing"),
    "another time": (tar(lambda info: setattr(info, "mtime", 1)), "as packing"),
    "a link's name": (tar(lambda info: setattr(info, "linkname", "/etc/passwd")), "as packing"),
    "PAX headers": (tar(pax_size, tarfile.PAX_FORMAT), "as packing"),
    "GNU's format": (tar(lambda info: None, tarfile.GNU_FORMAT), "as packing"),
    "an archive after the archive": (after_the_archive, "as packing"),
    "data after the archive": (lambda files: forged("hikey960", files, lambda i: i.extend(EVIL)), "as packing"),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ARCHIVE)
def test_an_archive_that_flashes_something_else(images: Callable[[str], Packed], name: str) -> None:
    attack, reason = ARCHIVE[name]
    found = attacked(images("hikey960"), attack)
    assert any(reason in text for text in found), found


FLASH: dict[str, tuple[Attack, str]] = {
    "an extra file": (with_file("qemu-virt", "evil.bin"), "evil.bin"),
    "a request that nothing serves": (with_file("qemu-virt", "request.bin"), "request.bin"),
    "data after the archive": (
        lambda files: forged("qemu-virt", files, lambda image: image.__setitem__(slice(-4, None), b"evil")),
        "as packing",
    ),
}


@pytest.mark.parametrize("name", FLASH)
def test_a_flash_image_with_something_else(images: Callable[[str], Packed], name: str) -> None:
    attack, reason = FLASH[name]
    found = attacked(images("qemu-virt"), attack)
    assert any(reason in text for text in found), found


@pytest.mark.parametrize("platform", ["rpi4", "hikey960", "qemu-virt"])
def test_the_forger_packs_as_we_do(images: Callable[[str], Packed], platform: str) -> None:
    """What is refused above is refused for what is in it, and not for how it is forged."""
    packed = images(platform)
    files = {name: file.data for name, file in take_apart(packed.image).files.items() if name != NAME}
    assert forged(platform, files) == packed.image
