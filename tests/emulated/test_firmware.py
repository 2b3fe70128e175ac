# SPDX-License-Identifier: BSD-2-Clause
"""The firmware of the secure world, generated and compiled, on Unicorn."""

from __future__ import annotations

import dataclasses
import mmap
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from unicorn import arm64_const as arm64

from host_tools import runners
from host_tools.runners import firmware, libraries, mailbox, unicorn
from host_tools.runners.buffers import Buffers
from host_tools.runners.replay import RunnerError
from host_tools.vgpu.binding import VirtualGpu
from signing.delivery import Delivery
from signing.keys import Algorithm, PublicKey
from signing.keys import generate as new_key
from tee_replayer.generator import target
from tee_replayer.generator.generate import generate
from tee_replayer.generator.generated_folder import FolderError
from tee_replayer.generator.options import GenerateError, Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.status import Report
from tests.support import replayer_samples as s
from tests.support.replayer_samples import signed, trace
from tests.support.trust_samples import STRANGER
from trace_format.actions import Op, action
from trace_format.errors import ProfileError

INPUT = np.arange(6, dtype="<f4").reshape(2, 3)
CROSS_GCC = f"{firmware.CROSS}gcc"


@pytest.fixture(scope="module")
def folder() -> Path:
    """A compiled firmware."""
    if shutil.which(CROSS_GCC) is None:
        pytest.skip(f"{CROSS_GCC} is missing: apt-get install gcc-aarch64-linux-gnu")
    return firmware.build(s.KEY, min_security_version=2).folder


def good() -> bytes:
    return signed(trace(meta={"security_version": 2, "name": "small"}))


def test_it_replays_as_the_host_does(folder: Path) -> None:
    for repeat in (1, 3):
        here = runners.run("vgpu", Delivery(good()), s.KEY, {"in": INPUT}, repeat=repeat)
        there = runners.run("unicorn", Delivery(good()), s.KEY, {"in": INPUT}, firmware=folder, repeat=repeat)
        assert there.ok, there.error
        assert np.array_equal(there.outputs["out"], INPUT)
        assert here.outputs["out"].tobytes() == there.outputs["out"].tobytes()
        assert (here.jobs, here.actions, here.retries, here.secure_bytes) == (
            there.jobs,
            there.actions,
            there.retries,
            there.secure_bytes,
        )


@pytest.mark.parametrize(
    ("sample", "status"),
    [
        (trace(), "ROLLBACK"),
        (trace(s.write("bridge.SW_INIT_1", 1), meta={"security_version": 2}), "REGISTER"),
        (trace(s.read("hub.IDENT1", 0x77, 0xFF), meta={"security_version": 2, "retry_limit": 1}), "DIVERGED"),
        (trace(action(Op.WAIT_IRQ, timeout_us=300), meta={"security_version": 2}), "NO_IRQ"),
    ],
)
def test_it_reports_as_the_host_does(folder: Path, sample: object, status: str) -> None:
    data = signed(sample)  # type: ignore[arg-type]
    here = runners.run("vgpu", Delivery(data), s.KEY, min_security_version=2)
    there = runners.run("unicorn", Delivery(data), s.KEY, firmware=folder)
    assert there.report.name == here.report.name == status
    assert there.error == here.error
    assert there.outputs == {}


def test_another_key_is_refused(folder: Path) -> None:
    key = STRANGER.public
    assert runners.run("unicorn", Delivery(good()), key, firmware=folder).ok, "the firmware has its own key"
    own = firmware.build(key)
    assert runners.run("unicorn", Delivery(good()), key, firmware=own.folder).report.name == "KEY"


def answer(folder: Path, request: bytes, size: int = 1 << 16, replays: bool = False) -> Report:
    """What the firmware answers to a request in raw bytes; `replays`: it may have replayed before it says no."""
    fw = firmware.load(folder)
    dram = np.frombuffer(mmap.mmap(-1, size), np.uint8)
    dram[: len(request)] = np.frombuffer(request, np.uint8)
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    with VirtualGpu("v3d42", {fw.board.carveout_base: carveout}) as device:
        unicorn.Machine(fw, device, carveout, dram).run()
        assert (device.counters().writes > 0) == replays
    assert not carveout[: 1 << 20].any()
    return mailbox.response(dram.data, Buffers(), mailbox.Layout(0, (), 0))


HUGE = (1 << 64) - 1
REQUESTS = {
    "nothing": b"",
    "another magic": struct.pack("<8sQQII", b"GMBXREQ2", 12288, 500, 1, 0),
    "trace in the request": struct.pack("<8sQQII", b"GMBXREQ1", 0, 500, 1, 0),
    "trace in the response": struct.pack("<8sQQII", b"GMBXREQ1", 12280, 500, 1, 0),
    "trace outside": struct.pack("<8sQQII", b"GMBXREQ1", 0x70000001, 0, 1, 0),
    "trace far outside": struct.pack("<8sQQII", b"GMBXREQ1", HUGE - 7, 500, 1, 0),
    "trace reaches outside": struct.pack("<8sQQII", b"GMBXREQ1", 12288, 0x70000000, 1, 0),
    "trace of all memory": struct.pack("<8sQQII", b"GMBXREQ1", 12288, HUGE, 1, 0),
    "very many buffers": struct.pack("<8sQQII", b"GMBXREQ1", 12288, 500, 1, 257),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_malformed_request_is_refused(folder: Path, name: str) -> None:
    assert answer(folder, REQUESTS[name]).name == "REQUEST"


@pytest.mark.parametrize(
    "buffer",
    [
        (0, 0, 0, 24),  # over the request
        (0, 0, 8192, 24),  # over the response
        (0, 0, 0xFFFFFFFF_C6000000, 24),  # the carve-out, by wrapping around
        (0, 0, 0xB8000000, 24),  # the carve-out
        (0, 0, 0x6FFFFFF8, 24),
        (0, 0, 0xF000, 23),
        (2, 0, 0xF000, 24),
        (0xFFFFFFFF, 0, 0xF000, 24),
    ],
)
def test_a_malformed_buffer_is_refused(folder: Path, buffer: tuple[int, ...]) -> None:
    data = good()
    request = struct.pack("<8sQQII", b"GMBXREQ1", 12288, len(data), 1, 1) + struct.pack("<IIQQ", *buffer)
    assert answer(folder, request.ljust(12288, b"\0") + data).name == "REQUEST"


@pytest.mark.parametrize(
    "step",
    [
        0xFFFFFFFF,
        0xB8000000 - 0xF000,  # to the carve-out
        0x6FFFFFF8 - 0xF000,  # to the mailbox's end
    ],
)
def test_a_step_that_leads_elsewhere_is_refused(folder: Path, step: int) -> None:
    """The first replay goes through, and the second is not begun; nothing stays in the carve-out."""
    data = good()
    request = struct.pack("<8sQQII", b"GMBXREQ1", 12288, len(data), 2, 1)
    request += struct.pack("<IIQQ", 0, step, 0xF000, 24)
    assert answer(folder, request.ljust(12288, b"\0") + data, replays=True).name == "REQUEST"


def test_a_crash_is_reported_and_ends(folder: Path) -> None:
    """The trace lies where there is no memory: a data abort, not an endless loop."""
    fw = firmware.load(folder)
    dram = np.frombuffer(mmap.mmap(-1, 1 << 16), np.uint8)
    dram[:32] = np.frombuffer(struct.pack("<8sQQII", b"GMBXREQ1", 0x30000000, 500, 1, 0), np.uint8)
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    with VirtualGpu("v3d42", {fw.board.carveout_base: carveout}) as device, pytest.raises(RunnerError):
        unicorn.Machine(fw, device, carveout, dram).run()


def test_a_firmware_that_waits_without_an_answer_is_reported(folder: Path) -> None:
    """Its first instruction is WFI."""
    whole = firmware.load(folder)
    fw = dataclasses.replace(whole, segments=((whole.entry, struct.pack("<I", 0xD503207F)),))
    dram = np.frombuffer(mmap.mmap(-1, 1 << 16), np.uint8)
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    with VirtualGpu("v3d42", {fw.board.carveout_base: carveout}) as device:
        machine = unicorn.Machine(fw, device, carveout, dram)
        with pytest.raises(RunnerError, match=f"the firmware stopped at {whole.entry + 4:#x}"):
            machine.run()


def test_the_folder_stands_alone(folder: Path, tmp_path: Path) -> None:
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"replayer.c", "replayer.h", "Makefile", "aws-lc/LICENSE", "firmware.elf"} <= names
    text = (folder / "replayer.c").read_text()
    assert s.KEY.kid.hex() in text
    assert f"{s.GPU.profile_id:#018x}" in text
    # the two files drop into any tree: nothing else of ours is needed to compile them
    for name in ("replayer.c", "replayer.h"):
        shutil.copy(folder / name, tmp_path)
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-ffreestanding", "-c"]
    subprocess.run([CROSS_GCC, *strict, "-o", "replayer.o", "replayer.c"], cwd=tmp_path, check=True)
    compiled = subprocess.run(
        [f"{firmware.CROSS}nm", "-u", "replayer.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert set(compiled.stdout.replace("U", " ").split()) == {
        *("gr_port_read32", "gr_port_write32", "gr_port_wait_irq", "gr_port_now_us"),
        *("gr_sha256", "gr_signature_verify", "memcpy", "memset"),
    }


def test_generating_twice_gives_the_same(folder: Path, tmp_path: Path) -> None:
    generate(
        Options("v3d42", platform_of("qemu-virt"), s.KEY, libraries.source(), min_security_version=2),
        tmp_path / "out",
    )
    for path in (p for p in (tmp_path / "out").rglob("*") if p.is_file()):
        assert path.read_bytes() == (folder / path.relative_to(tmp_path / "out")).read_bytes(), path
    generate(Options("v3d42", platform_of("qemu-virt"), s.KEY, libraries.source()), tmp_path / "out")
    assert "at least 0" in (tmp_path / "out" / "replayer.c").read_text()


def test_what_cannot_be_generated(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(GenerateError, match="EdDSA key, and this device build verifies ES256 only"):
        generate(
            Options(
                "v3d42",
                platform_of("qemu-virt"),
                PublicKey(new_key(Algorithm.EDDSA).public_key()),
                libraries.source(),
            ),
            out,
        )
    with pytest.raises(GenerateError, match=r"no platform 'pdp11'; there are: .*qemu-virt"):
        generate(Options("v3d42", platform_of("pdp11"), s.KEY, libraries.source()), out)
    with pytest.raises(ProfileError, match="no profile for GPU 'voodoo'"):
        generate(Options("voodoo", platform_of("qemu-virt"), s.KEY, libraries.source()), out)
    with pytest.raises(ProfileError, match=r"no nano driver for GPU voodoo; there are: .*mali_g71, .*v3d42"):
        target.header(dataclasses.replace(s.GPU, name="voodoo"))
    assert not out.exists()
    out.mkdir()
    (out / "thesis.txt").write_text("important")
    with pytest.raises(FolderError, match="is no generated folder"):
        generate(Options("v3d42", platform_of("qemu-virt"), s.KEY, libraries.source()), out)
    assert (out / "thesis.txt").read_text() == "important"


@pytest.mark.parametrize("content", [None, b"", b"\x7fELF", bytes(500)])
def test_a_folder_without_firmware(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "firmware.elf").write_bytes(content)
        (tmp_path / "firmware.bin").write_bytes(b"")
    with pytest.raises(RunnerError, match=r"firmware\.elf"):
        firmware.load(tmp_path)


def symbols(fw: firmware.Firmware) -> dict[str, int]:
    with (fw.folder / firmware.ELF).open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        return {symbol.name: symbol["st_value"] for symbol in table.iter_symbols()}


class AfterTheFact:
    """A firmware whose carve-out is full of secrets, started somewhere else than at reset."""

    def __init__(self, folder: Path, entry: str, accepted: bool = False) -> None:
        fw = firmware.load(folder)
        names = symbols(fw) | {"exception": fw.entry + 0x200}
        self.carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
        self.carveout[:] = 0xA5
        self.dram = np.frombuffer(mmap.mmap(-1, 1 << 16), np.uint8)
        self.log: list[tuple[str, int]] = []
        with VirtualGpu("v3d42", {fw.board.carveout_base: self.carveout}) as device:
            write32 = device.write32

            def note(offset: int, value: int) -> None:
                self.log.append((s.GPU.describe(offset), value))
                write32(offset, value)

            device.write32 = note  # type: ignore[method-assign]
            machine = unicorn.Machine(
                dataclasses.replace(fw, entry=names[entry]), device, self.carveout, self.dram
            )
            engine: Any = machine._uc
            engine.reg_write(arm64.UC_ARM64_REG_SP, names["gr_stack_end"])
            engine.reg_write(arm64.UC_ARM64_REG_TPIDR_EL1, int(accepted))  # gr_is_accepted
            machine.run()
            self.said = machine.uart.decode()


@pytest.mark.parametrize("accepted", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_an_exception_leaves_nothing(folder: Path, accepted: bool) -> None:
    """The vector is entered as the processor does: the GPU is reset, if a trace could have used it, the carve-out
    wiped, the address printed."""
    after = AfterTheFact(folder, "exception", accepted)
    assert after.log == ([("bridge.SW_INIT_1", 1), ("bridge.SW_INIT_1", 0)] if accepted else [])
    assert not after.carveout.any()
    assert after.said == "!00000000\n"


def test_a_driver_that_is_jumped_to_writes_nothing(folder: Path) -> None:
    """A fault may make the core jump anywhere: no register is written before a trace has been accepted."""
    reset = next(name for name in symbols(firmware.load(folder)) if name.startswith("gr_driver_reset"))
    assert AfterTheFact(folder, reset, accepted=True).log
    assert not AfterTheFact(folder, reset).log


def test_a_stack_that_has_grown_too_far_leaves_nothing(folder: Path) -> None:
    """Started after the code that writes the guard word, so that it is not there."""
    after = AfterTheFact(folder, "gr_main")
    assert not after.carveout.any()
    assert after.said == "!00000000\n"
