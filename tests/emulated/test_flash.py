# SPDX-License-Identifier: BSD-2-Clause
"""Images for boards: packed from real firmware, read back, and every tampering named."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import mmap
import os
import shlex
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools import runners
from host_tools.cli import main
from host_tools.flash import fip, sdcard
from host_tools.flash.containers import FIRMWARE, take_apart
from host_tools.flash.errors import FlashError, ImageError
from host_tools.flash.manifest import NAME
from host_tools.flash.pack import Sources, pack
from host_tools.runners import firmware, mailbox, unicorn
from host_tools.runners.buffers import bind
from host_tools.runners.replay import ReplayRequest
from host_tools.vgpu.binding import VirtualGpu
from signing.delivery import Delivery
from signing.sign import sign_trace
from tee_replayer.generator.device import Device
from tee_replayer.generator.device import find as find_device
from tests.support import replayer_samples as s
from tests.support.archives import extract
from tests.support.image_samples import GPUS, STRANGER, Packed, checked, reasons, sample
from tests.support.replayer_samples import signed, trace
from trace_format.actions import Op, action


@pytest.fixture(params=GPUS)
def packed(request: pytest.FixtureRequest, images: Callable[[str], Packed]) -> Packed:
    return images(request.param)


def test_it_is_what_it_must_be(packed: Packed) -> None:
    found = checked(packed.image)
    assert found.ok, reasons(found)
    assert found.manifest == packed.manifest
    device = next(device for _, device in find_device((packed.folder / FIRMWARE).read_bytes()))
    assert found.contents.device == device
    assert device.key.kid == s.KEY.kid
    assert packed.manifest.key_id == s.KEY.kid.hex() == packed.manifest.key_sha256[:32]
    assert packed.manifest.profile_id == f"{device.profile_id:#018x}"
    assert [t.key_id for t in packed.manifest.traces] == [s.KEY.kid.hex()]


def test_the_firmware_is_a_piece_as_it_was_built(packed: Packed) -> None:
    data = (packed.folder / FIRMWARE).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    piece = next(piece for piece in packed.manifest.pieces if piece.sha256 == digest)
    assert packed.image[piece.offset : piece.offset + piece.bytes] == data


def test_the_same_sources_give_the_same_image(packed: Packed) -> None:
    again, _ = pack(packed.folder, Sources([packed.folder.parent / "net.sgtr"]))
    assert again == packed.image


def test_inspect_says_what_it_is(packed: Packed, tmp_path: Path) -> None:
    """The image, and the firmware in it."""
    (tmp_path / "image").write_bytes(packed.image)
    found = json.loads(run(f"inspect {tmp_path}/image --json").stdout)
    assert found["kind"].startswith("image for a board (")
    assert found["figures"]["platform"] == packed.manifest.platform
    assert found["figures"]["key_id"] == packed.manifest.key_id
    assert found["figures"]["findings"] == []
    elf = next(packed.folder.glob("*.elf"))
    found = json.loads(run(f"inspect {elf} --json").stdout)
    assert (found["kind"], found["figures"]["machine"]) == ("firmware (ELF)", "AArch64")
    assert any(packed.manifest.key_id in str(value) for value in found["figures"].values())


def test_a_trace_that_the_device_has_no_memory_for(packed: Packed, tmp_path: Path) -> None:
    room = device_of(packed).carveout_bytes
    assert room == firmware.load(packed.folder).board.carveout_bytes
    gpu = packed.manifest.gpu
    (tmp_path / "net.sgtr").write_bytes(
        signed(trace(action(Op.REPLAY_START), gpu=gpu, slots=[], carveout_bytes=room))
    )
    with pytest.raises(FlashError) as error:
        pack(packed.folder, Sources([tmp_path / "net.sgtr"]))
    expected = f"net.sgtr: the device refuses this trace: secure memory: expected at most {room} bytes"
    assert str(error.value).startswith(expected)


def test_a_wrong_key_is_named(packed: Packed) -> None:
    found = checked(packed.image, STRANGER.public)
    assert len(found.findings) == 1
    assert "the device's key: expected" in reasons(found)[0]
    assert packed.image[found.findings[0].offset :].startswith(b"GRDEVICE")


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


def device_of(p: Packed) -> Device:
    return next(device for _, device in find_device(p.image))


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


def test_other_programs_read_the_card(images: Callable[[str], Packed], tmp_path: Path) -> None:
    """fsck.fat finds nothing to repair, mtools give the files that our reader gives."""
    packed = images("rpi4")
    partition = tmp_path / "partition"
    partition.write_bytes(packed.image[sdcard.FIRST_SECTOR * sdcard.SECTOR_BYTES :])
    fsck = shutil.which("fsck.fat", path="/usr/bin:/bin:/usr/sbin:/sbin")
    assert fsck
    done = subprocess.run([fsck, "-n", "-v", str(partition)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (tmp_path / "files").mkdir()
    subprocess.run(["mcopy", "-s", "-i", str(partition), "::*", str(tmp_path / "files")], check=True)
    found = {p.name: p.read_bytes() for p in (tmp_path / "files").iterdir()}
    assert found == {name: file.data for name, file in take_apart(packed.image).files.items()}


def test_what_the_card_makes_a_board_do(images: Callable[[str], Packed]) -> None:
    """What config.txt has loaded where: the stub at 0, the request at the mailbox."""
    packed = images("rpi4")
    files = {name: file.data for name, file in take_apart(packed.image).files.items()}
    lines = files["config.txt"].decode().splitlines()
    config = dict(line.split("=") for line in lines if "=" in line and not line.startswith("#"))
    assert config["arm_64bit"] == "1"
    assert config["kernel"] in files
    name, where = next(line.split()[1:] for line in lines if line.startswith("initramfs "))
    serve(packed, (0, files[config["armstub"]]), (int(where, 0), files[name]))


def test_what_the_package_makes_a_board_do(images: Callable[[str], Packed]) -> None:
    """BL31 and BL33 where TF-A's BL2 puts them (plat/hisilicon/hikey960/include/platform_def.h)."""
    packed = images("hikey960")
    found = fip.parse(take_apart(packed.image).files["fip.bin"].data).images
    serve(packed, (0x1AC58000, found["soc-fw"].data), (0x1AC98000, found["nt-fw"].data))


def serve(packed: Packed, stub: tuple[int, bytes], request: tuple[int, bytes]) -> None:
    """Run what an image holds: it replays the image's trace as the host does."""
    fw = firmware.load(packed.folder)
    assert (fw.entry, fw.board.mailbox_base) == (stub[0], request[0])
    fw = replace(fw, segments=(stub, *fw.segments[1:]))
    dram = np.frombuffer(mmap.mmap(-1, -(-len(request[1]) // 4096) * 4096), np.uint8)
    dram[: len(request[1])] = np.frombuffer(request[1], np.uint8)
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    data = take_apart(packed.image).files["net.sgtr"].data
    buffers = bind(Delivery(data).trace, {})
    block = unicorn.power_block(fw.board)
    assert block
    with VirtualGpu(block.GPU, {fw.board.carveout_base: carveout}, latency_ns=6000) as device:
        unicorn.Machine(fw, device, carveout, dram).run()
    report = mailbox.response(dram.data, buffers, mailbox.layout(data, buffers))
    expected = runners.run("vgpu", ReplayRequest(Delivery(data), s.KEY, latency_ns=6000))
    assert report.name == "OK"
    assert report.jobs == expected.jobs
    assert {name: array.tobytes() for name, array in buffers.outputs.items()} == {
        name: array.tobytes() for name, array in expected.outputs.items()
    }


def test_a_device_is_read_as_far_as_it_was_written(images: Callable[[str], Packed], tmp_path: Path) -> None:
    """A card is larger than its image, and after that lies what was there before."""
    packed = images("rpi4")
    os.mkfifo(tmp_path / "card")

    def write() -> None:
        with contextlib.suppress(BrokenPipeError):
            (tmp_path / "card").write_bytes(packed.image + b"before" * 1000)

    writer = threading.Thread(target=write)
    writer.start()
    assert sdcard.read_device(tmp_path / "card") == packed.image
    writer.join()


def test_boot_firmware(images: Callable[[str], Packed], tmp_path: Path) -> None:
    (tmp_path / "overlays").mkdir()
    for name in ("start4.elf", "fixup4.dat", "overlays/disable-bt.dtbo", "other.elf"):
        (tmp_path / name).write_bytes(name.encode())
    folder = images("rpi4").folder
    (tmp_path / "Image").write_bytes(b"Linux")
    traces = [folder.parent / "net.sgtr"]
    image, manifest = pack(folder, Sources(traces, boot_firmware=tmp_path, kernel=tmp_path / "Image"))
    assert manifest.missing == ()
    assert take_apart(image).files["overlays/disable-bt.dtbo"].data == b"overlays/disable-bt.dtbo"
    assert take_apart(image).files["kernel8.img"].data == b"Linux"
    assert "other.elf" not in take_apart(image).files
    assert checked(image).ok
    assert set(checked(image).given) == {"armstub8-gramophone.bin", "kernel8.img", "net.sgtr"} | {
        name for name in take_apart(image).files if name.startswith(("start4", "fixup4", "overlays/"))
    }
    assert set(checked(images("rpi4").image).given) == {"armstub8-gramophone.bin", "net.sgtr"}
    assert [need.name for need in images("rpi4").manifest.missing] == ["start4.elf", "fixup4.dat"]


def test_a_boards_own_package(images: Callable[[str], Packed], tmp_path: Path) -> None:
    folder = images("hikey960").folder
    (tmp_path / "fip.bin").write_bytes(fip.build({"scp-fw": b"lpm3", "soc-fw": b"old", "nt-fw": b"uefi"}))
    image, manifest = pack(folder, Sources(fip=tmp_path / "fip.bin"))
    found = fip.parse(take_apart(image).files["fip.bin"].data).images
    assert {name: found[name].data for name in ("scp-fw", "nt-fw")} == {"scp-fw": b"lpm3", "nt-fw": b"uefi"}
    assert found["soc-fw"].data == (folder / FIRMWARE).read_bytes()
    assert [need.name for need in manifest.missing] == [
        f"partition {name}" for name in ("ptable", "xloader", "fastboot")
    ]
    assert checked(image).ok
    (tmp_path / "fip.bin").write_bytes(fip.build({"soc-fw": b"old", "soc-fw-cert": b"of the old"}))
    made = run(f"flash {folder} -o {tmp_path}/image --fip {tmp_path}/fip.bin")
    assert "warning: fip.bin has certificates, of its old contents" in made.stderr


def test_an_unpacked_archive(images: Callable[[str], Packed], tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(images("hikey960").image)) as tar:
        extract(tar, tmp_path)
    assert run(f"flash --check {tmp_path}").exit_code == 0
    (tmp_path / "more.bin").write_bytes(b"1")
    (tmp_path / "flash.sh").write_text("fastboot flash fip other.bin\n")
    found = run(f"flash --check {tmp_path}")
    assert found.exit_code == 1
    assert ": is none of the files of such an image: expected nothing, found there" in found.stdout
    assert "flash.sh at 0x" in found.stdout
    (tmp_path / "more.bin").rename(tmp_path / f"{'x' * 120}.bin")
    long = run(f"flash --check {tmp_path}")
    assert (long.exit_code, "not the files of an archive" in long.stderr) == (2, True), long.output
    (tmp_path / f"{'x' * 120}.bin").unlink()
    (tmp_path / "flash.sh").unlink()
    (tmp_path / "flash.sh").symlink_to(tmp_path / "net.sgtr")
    assert "'flash.sh' in the folder: expected a file, found" in run(f"flash --check {tmp_path}").stderr


def run(line: str) -> Result:
    return CliRunner().invoke(main, shlex.split(line), catch_exceptions=False)


def test_the_command(images: Callable[[str], Packed], tmp_path: Path) -> None:
    packed = images("qemu-virt")
    (tmp_path / "pub.pem").write_bytes(s.KEY.pem())
    (tmp_path / "other.pem").write_bytes(STRANGER.public.pem())
    image = tmp_path / "image"
    made = run(f"flash {packed.folder} -o {image} --trace {packed.folder.parent}/net.sgtr --json")
    assert made.exit_code == 0, made.output
    assert image.read_bytes() == packed.image
    good = run(f"flash --check {image} --key {tmp_path}/pub.pem --json")
    assert good.exit_code == 0, good.output
    assert json.loads(good.stdout)["manifest_sha256"] == json.loads(made.stdout)["manifest_sha256"]
    assert json.loads(good.stdout)["findings"] == []
    assert json.loads(good.stdout)["not_derived"] == ["firmware.bin", "net.sgtr"]
    assert "not derived      firmware.bin, net.sgtr: compare" in run(f"flash --check {image}").stdout
    bad = run(f"flash --check {image} --key {tmp_path}/other.pem --json")
    assert bad.exit_code == 1
    finding = json.loads(bad.stdout)["findings"][0]
    assert finding.keys() == {"piece", "offset", "what", "expected", "found"}
    assert finding["piece"] == FIRMWARE
    assert "NOT what it must be" in run(f"flash --check {image} --key {tmp_path}/other.pem").stdout


def test_usage(images: Callable[[str], Packed], tmp_path: Path) -> None:
    folder = images("qemu-virt").folder
    net, board = folder.parent / "net.sgtr", images("hikey960").folder
    (tmp_path / "empty").mkdir()
    (tmp_path / "no.fip").write_bytes(b"no package")
    cases = {
        f"flash --check {net}": "net.sgtr: not an image that 'gramophone flash' wrote",
        f"flash --check {tmp_path}/nothing": "nothing: No such file",
        f"flash --check {tmp_path}/empty": "expected a file gramophone.json, found none",
        f"flash {tmp_path} -o {tmp_path}/x": "replayer.h: No such file or directory: 'gramophone",
        f"flash {folder} -o {tmp_path}/x --fip y": "--fip cannot be used for the platform qemu-virt",
        f"flash {folder} -o {tmp_path}/x --trace {net} --trace {net}": "there are two traces called net.sgtr",
        f"flash {folder} -o {tmp_path}/x --trace {folder}/Makefile": "Makefile.sgtr",
        f"flash {images('rpi4').folder} -o {tmp_path}/x --boot-firmware {net}": "expected a folder with",
        f"flash {board} -o {tmp_path}/x --fip {tmp_path}/no.fip": "no.fip at offset 0x0: FIP header",
    }
    for line, reason in cases.items():
        found = run(line)
        assert (found.exit_code, reason in found.stderr) == (2, True), (line, found.stderr)
    assert not (tmp_path / "x").exists()


def test_traces_that_the_device_refuses(images: Callable[[str], Packed], tmp_path: Path) -> None:
    folder = images("qemu-virt").folder
    (tmp_path / "a.sgtr").write_bytes(sign_trace(trace().build(), STRANGER))
    (tmp_path / "b.sgtr").write_bytes(sample("hikey960", tmp_path))
    for name, reason in (("a", "signed by an unknown key"), ("b", "GPU profile: expected 0x")):
        with pytest.raises(FlashError, match=f"{name}.sgtr: the device refuses this trace: {reason}"):
            pack(folder, Sources([tmp_path / f"{name}.sgtr"]))


def test_a_trace_that_breaks_the_policy_is_not_packed(images: Callable[[str], Packed], tmp_path: Path) -> None:
    bad = trace(*s.PROLOGUE, *s.REPLAY, s.write("hub.MMU_PT_PA_BASE", 0), meta={"security_version": 1})
    (tmp_path / "a.sgtr").write_bytes(signed(bad))
    reason = r"a\.sgtr: the device refuses this trace: the policy does not allow this register access, action 9"
    with pytest.raises(FlashError, match=reason):
        pack(images("qemu-virt").folder, Sources([tmp_path / "a.sgtr"]))


def test_a_damaged_trace_is_not_packed(images: Callable[[str], Packed], tmp_path: Path) -> None:
    """The place named is that in the trace's own file."""
    data = bytearray(sample("qemu-virt", tmp_path))
    data[-1] ^= 1
    (tmp_path / "a.sgtr").write_bytes(data)
    with pytest.raises(FlashError, match=r"a\.sgtr at 0x") as caught:
        pack(images("qemu-virt").folder, Sources(traces=(tmp_path / "a.sgtr",)))
    assert int(str(caught.value).split(" at ")[1].split(":")[0], 0) < len(data)


def test_a_trace_that_asks_for_inputs(images: Callable[[str], Packed], tmp_path: Path) -> None:
    (tmp_path / "a.sgtr").write_bytes(signed(trace(slots=s.slots(bound=False))))
    with pytest.raises(FlashError, match=r"a\.sgtr: no value for in, and nothing on this board gives one"):
        pack(images("rpi4").folder, Sources([tmp_path / "a.sgtr"]))


def test_a_firmware_that_is_not_for_the_platform(images: Callable[[str], Packed], tmp_path: Path) -> None:
    """A folder's head changed by hand: the firmware's own bytes say otherwise."""
    shutil.copytree(images("rpi4").folder, tmp_path / "out")
    header = tmp_path / "out" / "replayer.h"
    header.write_text(header.read_text().replace("on rpi4;", "on qemu-virt;", 1))
    with pytest.raises(FlashError, match="platform in the firmware: expected qemu-virt, found rpi4"):
        pack(tmp_path / "out", Sources())
