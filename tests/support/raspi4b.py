# SPDX-License-Identifier: BSD-2-Clause
"""QEMU's Raspberry Pi 4 for tests: what the VideoCore's firmware does with a card, and Linux behind it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from host_tools.flash.containers import take_apart
from host_tools.machine.apt import AptRoot
from host_tools.machine.board_qemu import raspi4b_qemu
from host_tools.machine.boot import GuestJob, guest_archive, read_counters
from host_tools.machine.console import GuestResult, last_lines, read_console
from host_tools.machine.devicetree import Tree
from host_tools.machine.errors import RecordError
from host_tools.machine.kernel_modules import load_order
from host_tools.machine.root import ARCHITECTURE, SUITE, UNUSED, RecordRoot
from host_tools.runners import raspi4b
from host_tools.runners.replay import RunnerError
from host_tools.runners.secure_machine import dram, run_qemu
from host_tools.support import programs
from host_tools.support.cache import cache_dir, made_once
from trace_format.files import read_file

DISK = 0x04000000  # a place for a RAM disk without a request; in the mailbox the firmware would write its answer
CARVEOUT = raspi4b.BOARD.memory["carveout"]
ARGUMENTS = "console=ttyAMA0,115200 panic=-1 quiet nokaslr"
FIRST_GIB = 0x3B400000  # the rest of it is the VideoCore's
SECOND_GIB = 1 << 30  # where it begins, and its size
# Nodes of Debian's tree whose registers this machine lacks: their drivers end in an external abort.
ABSENT = ("avs-monitor", "rng@", "hvs@", "pixelvalve", "vec@", "txp@", "dsi@", "csi@")
ABSENT_ON_BUS = ("pcie", "ethernet", "usb")
POWER_OFF = "bcm2835_wdt"  # the kernel's module that powers a board off
TIMEOUT_S = 900


def qemu_or_skip() -> str:
    """A QEMU with the machine; skips the test where there is none and its packages cannot be fetched."""
    try:
        return raspi4b_qemu()
    except RecordError as error:
        pytest.skip(str(error))


def loaded(card: bytes) -> tuple[bytes, dict[int, bytes]]:
    """What the VideoCore's firmware makes of a card of ours: the stub, and what it loads where.

    Facts: Raspberry Pi documentation, config.txt, boot options: files of a list lie one after the other.
    """
    files = {name: file.data for name, file in take_apart(card).files.items()}
    lines = [line for line in files["config.txt"].decode().splitlines() if not line.startswith("#")]
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    places = {raspi4b.KERNEL: files[settings["kernel"]]}
    for line in lines:
        if line.startswith("initramfs "):
            _, listed, at = line.split()
            places[int(at, 0)] = b"".join(files[name] for name in listed.split(","))
    return files[settings["armstub"]], places


def device_tree(root: RecordRoot, disk: range) -> bytes:
    """Debian's tree of the board, as the VideoCore's firmware leaves it; `disk`: of the initial RAM disk.

    What the machine lacks is off, and the carve-out is no memory of Linux's.
    """
    (blob,) = root.tree.glob("usr/lib/linux-image-*/broadcom/bcm2711-rpi-4-b.dtb")
    tree = Tree(blob.read_bytes())
    tree.set("/memory@0", {"reg": [0, 0, FIRST_GIB, 0, SECOND_GIB, SECOND_GIB]})
    ends = {"linux,initrd-start": [disk.start], "linux,initrd-end": [disk.stop]}
    tree.set("/chosen", {"bootargs": ARGUMENTS, **ends})
    tree.add(
        f"reserved-memory/carveout@{CARVEOUT.base:x}", {"reg": [0, CARVEOUT.base, CARVEOUT.bytes], "no-map": []}
    )
    for path in _absent(blob):
        tree.set(path, {"status": "disabled"})
    return tree.to_bytes()


def _absent(blob: Path) -> list[str]:
    """Paths of the nodes that must be off; that of Bluetooth would take the UART."""
    names = {bus: programs.run(["fdtget", "-l", str(blob), bus]).stdout.split() for bus in ("/soc", "/scb")}
    soc = [f"/soc/{name}" for name in names["/soc"] if name.startswith(ABSENT) or "@7ef" in name]
    scb = [f"/scb/{name}" for name in names["/scb"] if name.startswith(ABSENT_ON_BUS)]
    return [*soc, *scb, "/soc/serial@7e201000/bluetooth"]


def modules(root: RecordRoot, *names: str) -> dict[str, bytes]:
    """Modules of the guest's kernel that its root lacks, with what they need, by guest path; kept in the cache."""
    apt = AptRoot(SUITE, ARCHITECTURE, "record", assume=UNUSED, stamp=root.snapshot)
    release = root.versions["kernel"]

    def unpack(folder: Path) -> None:
        apt.debs = [deb for deb in apt.download(["linux-image-arm64"]) if deb.name.startswith("linux-image-6")]
        apt.extract(folder, keep=lambda path: path.startswith(f"usr/lib/modules/{release}/"))

    tree = made_once(cache_dir("modules") / release, unpack)
    found = load_order(tree / "usr/lib/modules" / release, list(names))
    return {f"job/modules/{number:02}-{name}.ko": data for number, (name, data) in enumerate(found.items())}


def archive(root: RecordRoot, job: GuestJob) -> bytes:
    """The initial RAM disk for a job of the recording machine's kind, which v3d.ko is loaded before."""
    power = modules(root, POWER_OFF)
    load = "".join(f"insmod /{path} || exit\n" for path in power)
    more = GuestJob(job.command, {**power, **job.files}, job.programs, job.gpu)
    return read_file(root.base) + guest_archive(more, "v3d", load + job.command)


def boot(
    root: RecordRoot,
    stub: bytes,
    places: Mapping[int, bytes],
    *,
    filled: Mapping[int, bytes] | None = None,
    plugin_args: Mapping[str, str] | None = None,
    timeout_s: int = TIMEOUT_S,
) -> tuple[GuestResult, bytes]:
    """Boot what a card has loaded, with Linux as the normal world; what came of its job, and the whole carve-out.

    Args:
        root: whose kernel's device tree is taken.
        stub: the firmware.
        places: by address: the kernel, and last what ends with the initial RAM disk.
        filled: what lies in memory before.
        plugin_args: further arguments of the plugin.
        timeout_s: time limit of the boot.
    """
    start, disk = max(places.items())
    files = {**(filled or {}), **places, raspi4b.TREE: device_tree(root, range(start, start + len(disk)))}
    with dram(raspi4b.RAM_BYTES, start, len(disk)) as (path, memory):
        raspi4b.load(memory, stub, files)
        console, stats = path.with_name("console"), path.with_name("stats")
        arguments = {"stats": str(stats), **(plugin_args or {})}
        command = raspi4b.command(path, arguments, serial=f"file:{console}")
        try:
            errors = run_qemu(command, path, timeout_s)
        except RunnerError as error:
            ended = last_lines(read_file(console), 20) if console.exists() else "(nothing)"
            raise RunnerError(f"{error}; the console ended: {ended}") from error
        print(read_file(console)[:4000].decode(errors="replace"))  # shown where a test fails
        found = read_console(read_file(console).split(b"\n", 1)[1], errors, read_counters(stats))
        return found, bytes(memory[CARVEOUT.base : CARVEOUT.base + CARVEOUT.bytes])
