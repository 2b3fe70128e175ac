# SPDX-License-Identifier: BSD-2-Clause
"""The ports for boards, on Unicorn with a model of what switches their GPUs."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools import runners
from host_tools.demo import RAW
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.runners import firmware, libraries, mailbox, unicorn
from host_tools.runners.buffers import bind
from host_tools.runners.power.block import PowerBlock
from host_tools.runners.power.hikey960 import RATE, Hikey960Power
from host_tools.runners.power.rpi4 import ASB_MASTER, ASB_SLAVE, CM_V3DCTL, PM_GRAFX, Rpi4Power
from host_tools.runners.replay import RunnerError, Tensor
from host_tools.vgpu.binding import VirtualGpu
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tee_replayer.generator import boards
from tee_replayer.generator.generate import generate as generate_sources
from tee_replayer.generator.options import GenerateError, Options
from tee_replayer.generator.platforms import platform_of
from tee_replayer.generator.status import Report, value_of
from tests.support import replayer_samples as s
from tests.support.firmware_samples import compiled, small_mali, values
from tests.support.replayer_samples import signed, trace
from trace_format import profile
from trace_format.actions import Op, action
from trace_format.trace import Trace

pytestmark = pytest.mark.usefixtures("checked_caches")

KIB, MIB = 1 << 10, 1 << 20
MAILBOX_CHANNEL = 0xE896B340


@pytest.fixture
def mali(tmp_path: Path) -> bytes:
    return signed(small_mali(tmp_path))


def power_of(machine: unicorn.Machine) -> PowerBlock:
    assert machine.power
    return machine.power


@dataclass
class Served:
    """A request that a board's firmware served."""

    machine: unicorn.Machine
    report: Report
    carveout: Tensor
    gpu: VirtualGpu

    @property
    def power(self) -> PowerBlock:
        """What switches the GPU."""
        return power_of(self.machine)


@pytest.fixture
def serve() -> Callable[..., Served]:
    def run(folder: Path, data: bytes, answers: int | None = None) -> Served:
        fw = firmware.load(folder)
        block = unicorn.power_block(fw.board)
        assert block
        sample = Delivery(data).trace
        buffers = bind(sample, values(sample, 1) if sample else {})
        dram = np.frombuffer(mmap.mmap(-1, MIB), np.uint8)
        carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
        places = mailbox.request(dram.data, data, buffers, 1)
        gpu = VirtualGpu(block.GPU, {fw.board.carveout_base: carveout}, latency_ns=6000)
        machine = unicorn.Machine(fw, gpu, carveout, dram, answers)
        machine.run()
        report = mailbox.response(dram.data, buffers, places)
        assert machine.uart == b"=%08x\n" % report.status
        return Served(machine, report, carveout, gpu)

    return run


def is_wiped(carveout: Tensor) -> bool:
    return not carveout[: 4 * MIB].any() and not carveout[-4 * MIB :].any()


def test_lenet_on_a_raspberry_pi_4(rpi4: Path) -> None:
    raw = RAW.read_bytes()
    data = sign_trace(build(Trace.parse(raw), source=raw, skip=KEEP_INPUTS).build(), s.ES256)
    here = runners.run("vgpu", Delivery(data), s.KEY)
    there = runners.run("unicorn", Delivery(data), s.KEY, firmware=rpi4)
    assert there.ok, there.error
    assert there.device == "Unicorn, EL3, Raspberry Pi 4"
    assert here.outputs["prob"].tobytes() == there.outputs["prob"].tobytes()
    assert here.outputs["prob"].any()
    assert (here.jobs, here.actions, here.retries) == (there.jobs, there.actions, there.retries)


@pytest.mark.parametrize(
    "trouble",
    [
        {},
        {"hang_job": 2},
        pytest.param({"fault_job": 1}, marks=pytest.mark.exhaustive),  # as in test_mali_firmware.py
    ],
)
def test_a_mali_trace_on_a_hikey960(hikey960: Path, tmp_path: Path, trouble: dict[str, Any]) -> None:
    sample = small_mali(tmp_path)
    inputs = values(sample, 1)
    here = runners.run("vgpu", Delivery(signed(sample)), s.KEY, inputs, latency_ns=6000, **trouble)
    there = runners.run(
        "unicorn",
        Delivery(signed(sample)),
        s.KEY,
        inputs,
        firmware=hikey960,
        latency_ns=6000,
        **trouble,
    )
    assert there.ok, there.error
    assert {name: value.tobytes() for name, value in here.outputs.items()} == {
        name: value.tobytes() for name, value in there.outputs.items()
    }
    assert (here.jobs, here.actions, here.retries, here.secure_bytes) == (
        there.jobs,
        there.actions,
        there.retries,
        there.secure_bytes,
    )


def test_a_divergence_resets_the_gpu_through_its_power_block(rpi4: Path, serve: Callable[..., Served]) -> None:
    sample = trace(*s.PROLOGUE, s.read("hub.IDENT1", 0x77, 0xFF), meta={"retry_limit": 2})
    served = serve(rpi4, signed(sample))
    assert (served.report.name, served.report.retries) == ("DIVERGED", 2)
    # before the prologue, three times; after each failure; gr_unload's; the end
    assert served.gpu.counters().resets == 3 + 3 + 1 + 1


# What the port writes after reset, in words of Linux 6.1 drivers/soc/bcm/bcm2835-power.c.
PASSWORD = 0x5A000000
CLOCK_ON, CLOCK_OFF = (CM_V3DCTL, PASSWORD | 0x50), (CM_V3DCTL, PASSWORD | 0x40)
RPI4_START = [(0xFF800000, 0), (0xFF800008, 0x80000000), (0xFE200004, 0x24000)]
RPI4_ON = [
    *(CLOCK_ON, CLOCK_OFF),
    (PM_GRAFX, PASSWORD | 0x40),
    CLOCK_ON,
    *((ASB_MASTER, PASSWORD | 0x2), (ASB_SLAVE, PASSWORD | 0x2)),
]
RPI4_OFF = [
    *((ASB_SLAVE, PASSWORD | 0x1), (ASB_MASTER, PASSWORD | 0x1)),
    CLOCK_OFF,
    (PM_GRAFX, PASSWORD),
]


def hikey960_message(mhz: int, *, first: bool) -> list[tuple[int, int]]:
    """Linux drivers/mailbox/hi3660-mailbox.c, channel 13 to interrupt 3, answered at 0."""
    channel = {name: MAILBOX_CHANNEL + at for name, at in {"src": 0, "dst": 4, "mode": 16, "mask": 20}.items()}
    data = [(MAILBOX_CHANNEL + 0x20 + 4 * i, word) for i, word in enumerate((0x3030A, mhz, 0, 0, 0, 0, 0, 0))]
    return [
        (0xE896BA00, 0x1ACCE551),
        *([(channel["src"], 1)] if first else []),
        *((channel["mask"], 0xFFFFFFF7), (channel["dst"], 8), (channel["mode"], 1)),
        *data,
        *((MAILBOX_CHANNEL + 0x1C, 1), (MAILBOX_CHANNEL + 0x18, 1)),
    ]


def other_key(sample: Trace) -> bytes:
    return sign_trace(sample.build(), FileSigner(generate(Algorithm.ES256)))


def test_another_key_is_refused_on_a_raspberry_pi_4(rpi4: Path, serve: Callable[..., Served]) -> None:
    served = serve(rpi4, other_key(trace()))
    assert served.report.name == "KEY"
    assert served.machine.gpu_writes == 0
    assert served.power.log == RPI4_START + RPI4_ON + RPI4_OFF
    assert not served.power.is_on()
    assert is_wiped(served.carveout)


def test_another_key_is_refused_on_a_hikey960(
    hikey960: Path, serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(hikey960, other_key(small_mali(tmp_path)))
    assert served.report.name == "KEY"
    assert served.machine.gpu_writes == 0
    assert served.power.log == hikey960_message(400, first=True) + hikey960_message(178, first=False)
    assert is_wiped(served.carveout)


def test_the_gpu_is_off_at_the_end(rpi4: Path, hikey960: Path, mali: bytes, serve: Callable[..., Served]) -> None:
    served = serve(rpi4, signed(trace()))
    assert served.report.ok
    assert served.machine.gpu_writes > 0
    assert served.power.log == RPI4_START + RPI4_ON + 2 * (RPI4_OFF + RPI4_ON) + RPI4_OFF
    assert not served.power.is_on()
    assert is_wiped(served.carveout)
    with pytest.raises(RunnerError, match="an access to a GPU that is off"):
        served.machine._reach_gpu()

    served = serve(hikey960, mali)
    assert served.report.ok
    assert served.power.read(RATE) == 178
    g71 = profile.load("mali_g71")
    for name in ("SHADER_READY_LO", "TILER_READY_LO", "L2_READY_LO"):
        assert served.gpu.read32(g71.register(f"gpu.{name}").offset) == 0
    assert is_wiped(served.carveout)


@pytest.mark.parametrize(
    ("answers", "failed", "accesses"),
    [(0, ASB_MASTER, False), (1, ASB_SLAVE, False), (2, ASB_SLAVE, True), (3, ASB_MASTER, True)],
)
def test_a_bridge_that_never_answers(
    rpi4: Path, serve: Callable[..., Served], answers: int, failed: int, accesses: bool
) -> None:
    """While the GPU is switched on, or later, while it is reset: it stays in reset, and nothing waits forever."""
    served = serve(rpi4, signed(trace()), answers)
    assert (served.report.name, served.report.offset) == ("POWER", failed)
    assert served.machine.uart == b"=33333333\n"
    assert (served.machine.gpu_accesses > 0) == accesses
    assert served.power.log[-1] == (PM_GRAFX, PASSWORD), "held in reset"
    assert is_wiped(served.carveout)
    assert f"register {failed:#010x}" in served.report.describe(s.GPU)


@pytest.mark.exhaustive  # as the bridges of the Raspberry Pi
@pytest.mark.parametrize(("answers", "replayed"), [(0, False), (1, True)])
def test_a_power_processor_that_never_answers(
    hikey960: Path, mali: bytes, serve: Callable[..., Served], answers: int, replayed: bool
) -> None:
    served = serve(hikey960, mali, answers)
    assert (served.report.name, served.report.offset) == ("POWER", MAILBOX_CHANNEL + 0x10)
    assert (served.machine.gpu_accesses > 0) == replayed
    assert (served.report.jobs > 0) == replayed
    assert is_wiped(served.carveout)


def test_a_malformed_request_leaves_the_gpu_off(rpi4: Path, hikey960: Path) -> None:
    for folder in (rpi4, hikey960):
        fw = firmware.load(folder)
        block = unicorn.power_block(fw.board)
        assert block
        dram = np.frombuffer(mmap.mmap(-1, 1 << 16), np.uint8)
        carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
        with VirtualGpu(block.GPU, {fw.board.carveout_base: carveout}) as gpu:
            machine = unicorn.Machine(fw, gpu, carveout, dram)
            machine.run()
            assert machine.uart == b"=%08x\n" % value_of("REQUEST")
            assert machine.gpu_accesses == 0
            assert not power_of(machine).is_on()


RELEASE, HOLD = (PM_GRAFX, PASSWORD | 0x40), (PM_GRAFX, PASSWORD)
OPEN_MASTER, OPEN_SLAVE = (ASB_MASTER, PASSWORD), (ASB_SLAVE, PASSWORD)
STOP_MASTER, STOP_SLAVE = (ASB_MASTER, PASSWORD | 1), (ASB_SLAVE, PASSWORD | 1)
ON = (CLOCK_ON, RELEASE, OPEN_MASTER, OPEN_SLAVE)
WRONG_SEQUENCES = {
    "no password": ([CLOCK_ON, (PM_GRAFX, 0x40)], "written with password 0x00"),
    "reset ends without clock": ([RELEASE], "without a clock"),
    "bridge before reset ends": ([CLOCK_ON, OPEN_MASTER], "to a GPU in reset"),
    "bridge without clock": ([CLOCK_ON, RELEASE, CLOCK_OFF, OPEN_MASTER], "without clock"),
    "slave first": ([CLOCK_ON, RELEASE, OPEN_SLAVE], "wrong order"),
    "master stops first": ([*ON, STOP_MASTER], "wrong order"),
    "reset with open bridges": ([*ON, HOLD], "open bridges"),
    "unknown register": ([(0xFE100004, PASSWORD)], "unknown register"),
}


def refused_at_last(model: type[PowerBlock], writes: list[tuple[int, int]], why: str) -> None:
    """The model takes all writes but the last."""
    with VirtualGpu(model.GPU) as gpu:
        block = model(gpu)
        for row in writes[:-1]:
            block.write(*row)
        with pytest.raises(RunnerError, match=why):
            block.write(*writes[-1])


@pytest.mark.parametrize("name", WRONG_SEQUENCES)
def test_the_model_of_the_pi_refuses(name: str) -> None:
    refused_at_last(Rpi4Power, *WRONG_SEQUENCES[name])


GOOD_MESSAGE = hikey960_message(400, first=True)
SENT = GOOD_MESSAGE[:-1]
WRONG_MESSAGES = {
    "locked": (GOOD_MESSAGE[1:2], "locked"),
    "channel not taken": (hikey960_message(400, first=False)[:-1], "over another one"),
    "another receiver": ([(a, 4 if a == MAILBOX_CHANNEL + 4 else v) for a, v in SENT], "set up wrongly"),
    "another message": ([(a, 7 if v == 0x3030A else v) for a, v in SENT], "does not know"),
    "no operating point": (hikey960_message(401, first=True)[:-1], "does not know"),
    "no answer yet": ([*SENT[:-1], GOOD_MESSAGE[-1]], "not there"),
    "sent twice": ([*SENT, SENT[-1]], "over another one"),
    "unknown register": ([GOOD_MESSAGE[0], (0xE896B000, 1)], "unknown register"),
}


@pytest.mark.parametrize("name", WRONG_MESSAGES)
def test_the_model_of_the_hikey_refuses(name: str) -> None:
    refused_at_last(Hikey960Power, *WRONG_MESSAGES[name])


def test_where_the_images_lie(rpi4: Path, hikey960: Path) -> None:
    """The stub below the kernel; the other in place of BL31, and entered at its first byte."""
    for folder, start, limit in ((rpi4, 0, 0x80000), (hikey960, 0x1AC58000, 0x1AC98000)):
        fw = firmware.load(folder)
        (base, data), (ram, ram_bytes) = fw.segments[0], fw.ram
        assert len(fw.segments) == 1
        assert fw.entry == base == start
        assert base + len(data) <= ram
        assert ram + ram_bytes <= limit
        assert fw.binary.read_bytes() == data
        board = boards.load("rpi4" if folder == rpi4 else "hikey960")
        tables = len(board.translation.tables) * 4 * KIB
        assert firmware.sizes(folder)["in all, code and constants"] <= tables + 24 * KIB
        for name in ("replayer.c", "replayer.h"):
            assert "only in emulation, not on silicon" in (folder / name).read_text()


OLD_HIKEY = """
like = "hikey960"
[memory]
rom = { base = 0x10000000 }
ram = { base = 0x10020000 }
[devices]
uart = { base = 0xfdf05000 }
[constants]
gpu_mhz = 533
"""


@pytest.mark.exhaustive  # as in tests/emulated/test_own_board.py
def test_a_board_like_another(tmp_path: Path) -> None:
    """An older HiKey960, whose console is UART 5, with another mailbox and place."""
    (tmp_path / "old-hikey.toml").write_text(OLD_HIKEY)
    folder = compiled(tmp_path, "mali_g71", boards.read(tmp_path / "old-hikey.toml"))
    fw = firmware.load(folder)
    assert (fw.board.uart_base, fw.entry, fw.ram[0]) == (0xFDF05000, 0x10000000, 0x10020000)
    sample = small_mali(tmp_path)
    result = runners.run(
        "unicorn",
        Delivery(signed(sample)),
        s.KEY,
        values(sample, 1),
        firmware=folder,
        latency_ns=6000,
    )
    assert result.ok, result.error


def test_a_board_has_its_own_gpu(tmp_path: Path, rpi4: Path, mali: bytes) -> None:
    with pytest.raises(GenerateError, match="the GPU of rpi4 is v3d42, not mali_g71"):
        generate_sources(Options("mali_g71", platform_of("rpi4"), s.KEY, libraries.source()), tmp_path / "out")
    with pytest.raises(RunnerError, match="a Raspberry Pi 4, which has a v3d42-pi4, no mali_g71"):
        runners.run("unicorn", Delivery(mali), s.KEY, firmware=rpi4, gpu="mali_g71")
    assert runners.run("unicorn", Delivery(mali), s.KEY, firmware=rpi4).report.name == "TARGET"


def test_qemu_is_no_board(rpi4: Path) -> None:
    with pytest.raises(RunnerError, match=r"made for a board .*--on unicorn"):
        runners.run("qemu", Delivery(signed(trace())), s.KEY, firmware=rpi4)


def test_a_trace_that_does_not_fit_the_mailbox(hikey960: Path) -> None:
    image = np.random.default_rng(1).bytes(3 * MIB)
    sample = trace(action(Op.REPLAY_START), gpu="mali_g71", slots=[], image=image, carveout_bytes=4 * MIB)
    with pytest.raises(RunnerError, match=r"need a mailbox of .* bytes; the firmware's has 2097152"):
        runners.run("unicorn", Delivery(signed(sample)), s.KEY, firmware=hikey960)
