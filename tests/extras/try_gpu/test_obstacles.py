# SPDX-License-Identifier: BSD-2-Clause
"""What can be in the way on a board: `try-gpu.sh --check` says what, and the way out, in a made-up system."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from host_tools.extras.try_gpu.pack import COMPATIBLE, GPUS, LIST, PORT, SCRIPT
from host_tools.machine.placements import PLACEMENTS

GPU = "sys/bus/platform/devices/fec00000.gpu"
DRIVERS = "sys/bus/platform/drivers"
SAYS = {
    "id": "0",
    "uname": '[ "$1" = -m ] && echo aarch64 || echo 6.12.0-rpi',
    "gcc": "aarch64-linux-gnu",
    "make": "",
}
PROMISE = (
    "a Raspberry Pi authenticates traces and checks them; it keeps nothing secret, for it has no memory firewall"
)
TOOLS = ("awk", "basename", "cat", "dirname", "grep", "readlink", "rm", "tr", "sh")


class System:
    """A Raspberry Pi that nothing is in the way on: files under `root`, programs in `bin`."""

    def __init__(self, folder: Path) -> None:
        self.root, self.bin, self.own = (folder / name for name in ("root", "bin", "try-gpu"))
        for made in (self.bin, self.own):
            made.mkdir()
        shutil.copy(PORT / SCRIPT, self.own)
        for gpu in GPUS:
            (self.own / gpu).mkdir()
            (self.own / gpu / COMPATIBLE).write_text(f"{PLACEMENTS[gpu].compatible}\n", encoding="ascii")
            (self.own / gpu / LIST).touch()
        for name, text in SAYS.items():
            self.says(name, text)
        for name in TOOLS:
            (self.bin / name).symlink_to(str(shutil.which(name)))
        self.write("proc/device-tree/compatible", "raspberrypi,4-model-b\0brcm,bcm2711\0")
        self.write("proc/device-tree/model", "Raspberry Pi 4 Model B\0")
        self.write("proc/meminfo", "MemTotal: 2000000 kB\nMemAvailable: 1000000 kB\n")
        self.write("proc/sys/kernel/io_uring_disabled", "0\n")
        self.write("sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
        for path in (
            "dev/mem",
            "dev/vcio",
            "proc/self/pagemap",
            f"{GPU}/drm/card1/dev",
            f"{GPU}/drm/renderD128/dev",
        ):
            self.write(path, "")
        self.write(f"{GPU}/of_node/compatible", "brcm,2711-v3d\0")
        for name in ("v3d", "simple-pm-bus"):
            (self.root / DRIVERS / name).mkdir(parents=True)
        (self.root / "sys/kernel/mm/hugepages").mkdir(parents=True)
        self.bind("v3d")

    def says(self, name: str, text: str) -> None:
        """A program that prints a text, or runs it where it is a test."""
        body = text if text.startswith("[") else f"echo {text}"
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
        path.chmod(0o755)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="ascii")

    def remove(self, path: str) -> None:
        file = self.root / path
        shutil.rmtree(file) if file.is_dir() else file.unlink()

    def bind(self, driver: str) -> None:
        link = self.root / GPU / "driver"
        link.unlink(missing_ok=True)
        if driver:
            link.symlink_to(self.root / DRIVERS / driver)

    def is_a_pi_3(self) -> None:
        self.write("proc/device-tree/compatible", "raspberrypi,3-model-b\0brcm,bcm2837\0")
        self.write("proc/device-tree/model", "Raspberry Pi 3 Model B\0")

    def is_a_pi_5(self, blocks: str = "hub\0core0\0sms\0") -> None:
        self.write("proc/device-tree/compatible", "raspberrypi,5-model-b\0brcm,bcm2712\0")
        self.write("proc/device-tree/model", "Raspberry Pi 5 Model B\0")
        self.write(f"{GPU}/of_node/compatible", "brcm,2712-v3d\0")
        self.write(f"{GPU}/of_node/reg-names", blocks)

    def is_a_computer(self) -> None:
        self.says("uname", "x86_64")
        self.says("id", "1000")

    def runs(self, release: str) -> None:
        """A kernel that cannot ask the firmware."""
        self.remove("dev/vcio")
        self.says("uname", f'[ "$1" = -m ] && echo aarch64 || echo {release}')

    def held(self) -> None:
        """A process has the GPU open."""
        self.write("proc/812/comm", "labwc\n")
        (self.root / "proc/812/fd").mkdir()
        (self.root / "proc/812/fd/9").symlink_to("/dev/dri/renderD128")

    def check(self, **environment: str) -> tuple[int, list[str]]:
        """Exit status of the check, and its lines after the promise."""
        status, lines = self.run("--check", **environment)
        assert lines[0] == PROMISE
        return status, lines[1:]

    def run(self, *words: str, **environment: str) -> tuple[int, list[str]]:
        """Exit status and lines of the script."""
        variables = {"PATH": str(self.bin), "TRY_GPU_ROOT": str(self.root), **environment}
        command = [str(self.bin / "sh"), str(self.own / SCRIPT), *words]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.returncode, [line.removeprefix("try-gpu: ") for line in done.stdout.splitlines()]


@pytest.fixture
def system(tmp_path: Path) -> System:
    return System(tmp_path)


OBSTACLES: dict[str, tuple[Callable[[System], None], str, str]] = {
    "not root": (lambda s: s.says("id", "1000"), "not root: expected user 0, found 1000", "sudo sh try-gpu.sh"),
    "a computer": (
        lambda s: s.is_a_computer(),
        "not a Raspberry Pi: expected aarch64, found x86_64",
        "copy the archive to the board, and run it there",
    ),
    "32-bit kernel": (
        lambda s: s.says("uname", "armv7l"),
        "a 32-bit kernel: expected aarch64, found armv7l",
        "arm_64bit=1 in config.txt, or a 64-bit system",
    ),
    "32-bit system": (
        lambda s: s.says("gcc", "arm-linux-gnueabihf"),
        "a 32-bit system on a 64-bit kernel: expected gcc for aarch64, found arm-linux-gnueabihf",
        "the 64-bit Raspberry Pi OS",
    ),
    "another board": (
        lambda s: s.is_a_pi_3(),
        "another board: expected a Raspberry Pi 4, 400, CM4, 5, 500 or CM5, found Raspberry Pi 3 Model B",
        "",
    ),
    "a part of the archive": (
        lambda s: (s.own / GPUS[-1] / LIST).unlink(),
        "the archive was cut off: expected v3d71/networks.txt, its last file, found none",
        "copy pi.tar again",
    ),
    "no gcc": (
        lambda s: (s.bin / "gcc").unlink(),
        "no compiler: expected gcc, found none",
        "sudo apt-get install gcc",
    ),
    "no make": (
        lambda s: (s.bin / "make").unlink(),
        "no make: expected it, found none",
        "sudo apt-get install make",
    ),
    "lockdown": (
        lambda s: s.write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
        "the kernel is locked down: /dev/mem is closed",
        "secure boot off, or without lockdown= on the kernel's command line",
    ),
    "no /dev/mem": (
        lambda s: s.remove("dev/mem"),
        "no /dev/mem: expected a kernel with DEVMEM, found none",
        "the distribution's own kernel",
    ),
    "io_uring off": (
        lambda s: s.write("proc/sys/kernel/io_uring_disabled", "2\n"),
        "io_uring is off, and nothing else pins memory",
        "sudo sysctl kernel.io_uring_disabled=0",
    ),
    "no pagemap": (
        lambda s: s.remove("proc/self/pagemap"),
        "no /proc/self/pagemap: expected a kernel with PROC_PAGE_MONITOR",
        "the distribution's own kernel",
    ),
    "no idle driver": (
        lambda s: s.remove(f"{DRIVERS}/simple-pm-bus"),
        "no driver that does nothing: expected simple-pm-bus or alarmtimer, found neither",
        "a kernel with SIMPLE_PM_BUS or RTC_CLASS",
    ),
    "too little memory": (
        lambda s: s.write("proc/meminfo", "MemAvailable: 102400 kB\n"),
        "too little memory: expected 192 MiB, found 100 MiB",
        "end other programs",
    ),
    "no GPU": (
        lambda s: s.write(f"{GPU}/of_node/compatible", "brcm,other\0"),
        "no GPU in the device tree: expected brcm,2711-v3d or brcm,2712-v3d, found neither",
        "dtoverlay=vc4-kms-v3d in config.txt, then reboot",
    ),
    "a Pi 5's old kernel": (
        lambda s: s.is_a_pi_5(blocks="hub\0core0\0"),
        "the kernel's driver could not use the GPU afterwards: expected registers sms in the device tree, found "
        "none",
        "sudo apt full-upgrade: Raspberry Pi's kernels have them since 2025",
    ),
    "no driver": (
        lambda s: s.bind(""),
        "the GPU has no driver: expected v3d, found none",
        "sudo modprobe v3d, or sudo sh try-gpu.sh --give-back",
    ),
    "cut off": (
        lambda s: s.bind("simple-pm-bus"),
        "an earlier run was cut off and has the GPU",
        "sudo sh try-gpu.sh --give-back",
    ),
    "another driver": (
        lambda s: s.bind("vfio-platform"),
        "another driver has the GPU: expected v3d, found vfio-platform",
        "",
    ),
    "a desktop": (
        lambda s: s.held(),
        "the GPU is in use by labwc (812), a desktop perhaps",
        "sudo systemctl isolate multi-user.target",
    ),
    "clock": (
        lambda s: s.runs("6.18.2-arm64"),
        "the GPU's clock may be off, and no /dev/vcio to ask the firmware: expected Linux before 6.17, found "
        "6.18.2-arm64",
        "sudo GRAMOPHONE_CLOCK_IS_ON=1 sh try-gpu.sh tries it; a board that hangs needs its plug pulled",
    ),
}


def test_nothing_is_in_the_way(system: System) -> None:
    assert system.check() == (0, ["nothing is in the way"])
    system.is_a_pi_5()
    assert system.check() == (0, ["nothing is in the way"])


def test_there_are_at_least_twelve() -> None:
    assert len({what for _, what, _ in OBSTACLES.values()}) >= 12


@pytest.mark.parametrize("name", OBSTACLES)
def test_each_obstacle_has_its_sentence(system: System, name: str) -> None:
    change, what, way = OBSTACLES[name]
    change(system)
    assert system.check() == (2, [what, *([f"way out: {way}"] if way else [])])


def test_an_option_that_is_none(system: System) -> None:
    assert system.run("--help") == (2, ["option: expected --check, --give-back or none, found --help"])


def test_outputs_that_differ(system: System) -> None:
    """A replay whose output is not the model's, on a board where nothing is in the way."""
    for name in ("cmp", "cp", "cut", "head", "kill", "mkdir", "mv", "od", "sleep", "tail", "tar", "wc"):
        (system.bin / name).symlink_to(str(shutil.which(name)))
    system.says("zcat", "")
    system.says("dmesg", "")
    own = system.own / "v3d42"
    (own / "expected").mkdir()
    values = np.arange(4, dtype=np.float32)
    np.save(own / "expected/net.same.npy", values)
    np.save(own / "expected/net.other.npy", values + np.float32(0.5))
    np.save(system.own / "found.npy", values)
    np.save(own / "expected/jobs.job0000.npy", values)
    (own / LIST).write_text("net.sgtr same other\njobs.sgtr job0000\n", encoding="ascii")
    program = own / "gramophone-gpu"
    program.write_text(
        '#!/bin/sh\n[ "$1" != replay ] || for slot in same other job0000; do '
        'cp found.npy "result/$(basename "$2" .sgtr).$slot.npy"; done\n',
        encoding="ascii",
    )
    program.chmod(0o755)
    status, lines = system.run()
    assert (status, lines[0], lines[2:]) == (
        1,
        PROMISE,
        [
            "net: 20 replays, same is the model's output: byte for byte",
            "net: 20 replays, other differs from the model's output: largest difference 0.5",
            "jobs: 1 replays, job0000 is the model's output: byte for byte",
            "the GPU is with v3d",
            "please send result.tar back: a difference is as useful",
        ],
    )
    with tarfile.open(system.own / "result.tar") as tar:
        names = set(tar.getnames())
    assert {"result/net.other.npy", "result/net.json", "result/jobs.once.json", "result/board.txt"} <= names
    assert "result/jobs.json" not in names


def test_a_run_that_was_cut_off_leaves_the_next_one_alone(system: System) -> None:
    """Nothing of it gives the GPU back once more, when the next run has taken it."""
    for name in ("head", "kill", "ln", "mkdir", "sleep", "touch"):
        (system.bin / name).symlink_to(str(shutil.which(name)))
    own, link = system.own / "v3d42", system.root / GPU / "driver"
    (own / LIST).write_text("net.sgtr prob\n", encoding="ascii")
    program = own / "gramophone-gpu"
    program.write_text(
        f'#!/bin/sh\necho "$1" >>calls\ncase $1 in\ntake) ln -sfn drivers/simple-pm-bus {link} ;;\n'
        f"give-back) ln -sfn drivers/v3d {link} ;;\nreplay) exec sleep 1000 ;;\nesac\n",
        encoding="ascii",
    )
    program.chmod(0o755)
    script, calls = str(system.own / SCRIPT), system.own / "calls"
    variables = {"PATH": str(system.bin), "TRY_GPU_ROOT": str(system.root)}
    running = subprocess.Popen(
        [str(system.bin / "sh"), script], env=variables, stdout=subprocess.DEVNULL, start_new_session=True
    )
    while not calls.exists() or "replay" not in calls.read_text():
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGTERM)
    assert running.wait() == 130
    system.bind("simple-pm-bus")
    while is_running(script):
        time.sleep(0.01)
    assert calls.read_text().split() == ["take", "replay", "give-back"]


def is_running(word: str) -> bool:
    """Whether a process has it among its arguments."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            if word in path.read_text(errors="replace"):
                return True
    return False


def test_no_two_obstacles_have_the_same_sentence() -> None:
    assert len({what for _, what, _ in OBSTACLES.values()}) == len(OBSTACLES) >= 12


def test_a_folder_that_cannot_be_written_to(system: System) -> None:
    if os.geteuid() == 0:
        (system.own / "result.new").mkdir()
    system.own.chmod(0o555)
    expected = (2, ["this folder cannot be written to", "way out: copy it elsewhere"])
    assert system.check() == expected
    system.own.chmod(0o755)


def test_a_kernel_without_huge_pages_is_told_of(system: System) -> None:
    system.remove("sys/kernel/mm/hugepages")
    note = "note: this kernel has no huge pages (HUGETLBFS): large networks may find no memory in one piece"
    assert system.check() == (0, [note, "nothing is in the way"])


@pytest.mark.parametrize("release", ["6.12.117+deb13-arm64", "5.15.0", "6.6.31+rpt-rpi-v8", "6.16.9"])
def test_older_kernels_leave_the_clock_on(system: System, release: str) -> None:
    system.runs(release)
    assert system.check() == (0, ["nothing is in the way"])


def test_the_clock_can_be_answered_for(system: System) -> None:
    OBSTACLES["clock"][0](system)
    assert system.check(GRAMOPHONE_CLOCK_IS_ON="1") == (0, ["nothing is in the way"])
