# SPDX-License-Identifier: BSD-2-Clause
"""Images for boards: what `flash` packs is what boards, other programs and `flash --check` expect."""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from host_tools import runners
from host_tools.flash import fip, sdcard
from host_tools.flash.containers import FIRMWARE, take_apart
from host_tools.flash.errors import FlashError
from host_tools.flash.pack import Sources, pack
from host_tools.runners import firmware, mailbox, unicorn
from host_tools.runners.buffers import bind
from host_tools.vgpu.binding import VirtualGpu
from signing.delivery import Delivery
from tee_replayer.generator.device import find as find_device
from tests.support import replayer_samples as s
from tests.support.image_samples import STRANGER, Packed, checked, command, device_of, reasons
from tests.support.replayer_samples import signed, trace
from trace_format.actions import Op, action


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
    found = json.loads(command(f"inspect {tmp_path}/image --json").stdout)
    assert found["kind"].startswith("image for a board (")
    assert found["figures"]["platform"] == packed.manifest.platform
    assert found["figures"]["key_id"] == packed.manifest.key_id
    assert found["figures"]["findings"] == []
    elf = next(packed.folder.glob("*.elf"))
    found = json.loads(command(f"inspect {elf} --json").stdout)
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
    expected = runners.run("vgpu", Delivery(data), s.KEY, latency_ns=6000)
    assert report.name == "OK"
    assert report.jobs == expected.jobs
    assert {name: array.tobytes() for name, array in buffers.outputs.items()} == {
        name: array.tobytes() for name, array in expected.outputs.items()
    }


def test_a_device_is_read_as_far_as_it_was_written(images: Callable[[str], Packed], tmp_path: Path) -> None:
    """A card is larger than its image, and after that lies what was there before."""
    packed = images("rpi4")
    disk = io.BytesIO(packed.image + b"before" * 1000)
    assert sdcard.of_disk(disk, "card") == packed.image


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


def test_an_initial_ram_disk(images: Callable[[str], Packed], tmp_path: Path) -> None:
    """It lies behind the request, which is a file of it: config.txt has all of them loaded one after the other."""
    folder = images("rpi4").folder
    traces = [folder.parent / "net.sgtr"]
    for name in ("Image", "initrd"):
        (tmp_path / name).write_bytes(name.encode())
    image, _ = pack(folder, Sources(traces, kernel=tmp_path / "Image", initrd=tmp_path / "initrd"))
    files = take_apart(image).files
    assert b"initramfs request.head,request.bin,initrd.img 0x0ffff000\n" in files["config.txt"].data
    assert len(files["request.head"].data) == 0x1000
    assert files["request.bin"].data == take_apart(images("rpi4").image).files["request.bin"].data
    assert checked(image).ok
    assert set(checked(image).given) == {"armstub8-gramophone.bin", "initrd.img", "kernel8.img", "net.sgtr"}
    without, _ = pack(folder, Sources(kernel=tmp_path / "Image", initrd=tmp_path / "initrd"))
    assert b"initramfs initrd.img followkernel\n" in take_apart(without).files["config.txt"].data
    with (tmp_path / "initrd").open("wb") as file:
        file.truncate(256 << 20)
    with pytest.raises(
        FlashError, match=r"initrd\.img: memory for it and the request: expected at most 268435456 b"
    ):
        pack(folder, Sources(traces, kernel=tmp_path / "Image", initrd=tmp_path / "initrd"))
    done = command(f"flash {folder} -o {tmp_path}/image --initrd {tmp_path}/initrd")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: --initrd requires --kernel (see ")


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
    made = command(f"flash {folder} -o {tmp_path}/image --fip {tmp_path}/fip.bin")
    assert "warning: fip.bin has certificates, of its old contents" in made.stderr
