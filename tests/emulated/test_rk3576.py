# SPDX-License-Identifier: BSD-2-Clause
"""The port for the RK3576 against a model of its power, clock and firewall: who reaches what, at every step."""

from __future__ import annotations

import functools
import itertools
import mmap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from host_tools import runners
from host_tools.runners import firmware, mailbox, unicorn
from host_tools.runners.buffers import bind
from host_tools.runners.power import rk3576 as chip
from host_tools.runners.power.rk3576 import Rk3576Power
from host_tools.runners.replay import RunnerError
from host_tools.vgpu.binding import VirtualGpu
from signing.delivery import Delivery
from tee_replayer.generator.status import Report
from tests.support import replayer_samples as s
from tests.support.cache_plants import sample
from tests.support.firmware_samples import kept, values
from trace_format.trace import Trace

pytestmark = pytest.mark.usefixtures("checked_caches")

MIB = 1 << 20
CARVEOUT = Rk3576Power.BOARD.memory["carveout"]
Writes = list[tuple[int, int]]


def lenet() -> Trace:
    """That of a G71, on a G52 r1."""
    return sample("mali_g52r1")


@pytest.fixture(scope="module")
def folder() -> Path:
    return kept("mali_g52r1", "rk3576")


def serve(folder: Path, data: bytes, answers: int | None = None) -> tuple[Report, Rk3576Power, np.ndarray]:
    """A request; what it says, the model, and the carve-out."""
    fw, sample = firmware.load(folder), Delivery(data).trace
    buffers = bind(sample, values(sample, 1) if sample else {})
    dram = np.frombuffer(mmap.mmap(-1, MIB), np.uint8)
    carveout = np.frombuffer(mmap.mmap(-1, fw.board.carveout_bytes), np.uint8)
    places = mailbox.request(dram.data, data, buffers, 1)
    with VirtualGpu("mali_g52r1", {fw.board.carveout_base: carveout}, latency_ns=6000) as gpu:
        machine = unicorn.Machine(fw, gpu, carveout, dram, answers)
        machine.run()
        assert isinstance(machine.power, Rk3576Power)
        return mailbox.response(dram.data, buffers, places), machine.power, carveout


@functools.cache
def good(folder: Path) -> Writes:
    """What the port writes for a replay."""
    report, power, carveout = serve(folder, s.signed(lenet()))
    assert report.ok, report
    assert not carveout.any()
    return power.log


def test_lenet(folder: Path) -> None:
    data = Delivery(s.signed(lenet()))
    given = {"data": np.random.default_rng(5).random((1, 28, 28), np.float32)}
    here = runners.run("vgpu", data, s.KEY, given)
    there = runners.run("unicorn", data, s.KEY, given, firmware=folder)
    assert there.ok, there.error
    assert there.device == "Unicorn, EL3, RK3576"
    assert here.outputs["prob"].tobytes() == there.outputs["prob"].tobytes()
    assert here.outputs["prob"].sum() == pytest.approx(1, abs=1e-5)


def played(writes: Writes, look: Callable[[Rk3576Power], None] = lambda _power: None) -> Rk3576Power:
    """The model after writes, 20 us apart; the carve-out holds data from power on to power off.

    Raises:
        RunnerError: the model refuses one.
    """
    memory = np.frombuffer(mmap.mmap(-1, 4096), np.uint8)
    with VirtualGpu("mali_g52r1", {CARVEOUT.base: memory}) as gpu:
        power = Rk3576Power(gpu)
        for address, value in writes:
            power.now_ns += chip.KEY_TAKES_NS
            power.read(chip.IS_OFF)  # time passes before the next write
            power.write(address, value)
            memory[0] = power.is_on()
            look(power)
        power.now_ns += chip.KEY_TAKES_NS
        power.read(chip.IS_OFF)
        power.refuse(power.is_on(), "the GPU keeps its power")
        power.refuse(not power.commands(*LINUX), "the GPU's registers are not handed back")
        power.refuse(not power.reaches(*LINUX, CARVEOUT.base), "the carve-out's memory is not handed back")
        power.refuse(power.domain(chip.GPU) != 1, "the GPU is not handed back")
        return power


LINUX = chip.CORES[0], chip.NORMAL
WRITE = Rk3576Power._write
# Writes that the model does not miss, and why the port has them all the same.
SPARE = {
    chip.MASTERS[5]: "this word is 0 after the model's reset, and nobody knows that of the chip's",
    chip.MASTERS[6]: "the same",
    chip.BUS_REQUEST: "the model's GPU comes out of reset with an open bus",
}


def test_what_the_port_writes_is_taken(folder: Path) -> None:
    assert played(good(folder)).log == good(folder)


def is_refused(writes: Writes) -> bool:
    try:
        played(writes)
    except RunnerError:
        return True
    return False


def test_each_write_left_out_is_refused(folder: Path) -> None:
    writes = good(folder)
    missed = [writes[i] for i in range(len(writes)) if not is_refused(writes[:i] + writes[i + 1 :])]
    assert {address for address, _ in missed} <= SPARE.keys(), [hex(address) for address, _ in missed]
    assert len(missed) < len(writes) / 4


FREE = chip.CLOCK, chip.REPAIR  # their place is anywhere before the GPU gets power


def effect(writes: Writes) -> list[tuple[Writes, Writes]]:
    """Between turns of the key: settings, which count at the next one in whatever order, and other writes."""
    writes = [write for write in writes if write[0] not in FREE]
    found: list[tuple[Writes, Writes]] = [([], [])]
    for write in writes:
        found[-1][write[0] not in chip.SETTINGS].append(write)
        if write[0] == chip.KEY:
            found.append(([], []))
    return [(sorted(settings), others) for settings, others in found]


def test_each_pair_exchanged_is_refused(folder: Path) -> None:
    writes = good(folder)
    for i, j in itertools.combinations(range(len(writes)), 2):
        changed = list(writes)
        changed[i], changed[j] = changed[j], changed[i]
        spare = {writes[i][0], writes[j][0]} & SPARE.keys()
        assert is_refused(changed) or spare or effect(changed) == effect(writes), [
            hex(writes[k][0]) for k in (i, j)
        ]


WRONG = {
    "no mask": ([(chip.POWER_OFF, chip.GPU_POWER)], "no mask"),
    "unknown register": ([(chip.PMU, 0)], "unknown register"),
    "unknown key": ([(chip.KEY, 1)], "no key"),
    "key turned twice": ([(chip.KEY, chip.KEY_ON)], "that was not off"),
    "settings while others are about to count": (
        [(chip.KEY, chip.KEY_OFF), (chip.KEY, chip.KEY_ON), (chip.REGIONS_ON, 0)],
        "about to count",
    ),
    "settings without the key": ([(chip.KEY, chip.KEY_OFF), (chip.REGIONS_ON, 0)], "while the key is off"),
    "clock of a GPU with power": ([(chip.CLOCK, 0x01FF0005)], "while the GPU has power"),
    "power goes first": ([(chip.POWER_OFF, 0x02000200)], "while the bus is in use"),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_model_refuses(name: str) -> None:
    writes, why = WRONG[name]
    with VirtualGpu("mali_g52r1") as gpu:
        power = Rk3576Power(gpu)
        for write in writes[:-1]:
            power.write(*write)
        with pytest.raises(RunnerError, match=why):
            power.write(*writes[-1])


@pytest.mark.parametrize(
    ("answers", "failed"),
    [
        (0, chip.BUS_ACKNOWLEDGED),  # of the GPU that is on when the firmware starts
        (1, chip.IS_OFF),
        (2, chip.IS_OFF),  # the power comes
        (3, chip.BUS_ACKNOWLEDGED),
        (4, chip.BUS_ACKNOWLEDGED),  # it goes
        (5, chip.IS_OFF),
    ],
)
def test_a_power_unit_that_never_answers(folder: Path, answers: int, failed: int) -> None:
    """Nothing waits forever, and the carve-out stays closed if the GPU may still have power."""
    report, power, carveout = serve(folder, s.signed(lenet()), answers)
    assert (report.name, report.offset) == ("POWER", failed)
    assert not carveout.any()
    if answers >= 3:
        assert not list(power.open_to())


def keeping(kept: int) -> Callable[[Rk3576Power, int, int], bool]:
    """A chip in which one setting stays as it is after the reset."""
    return lambda power, address, value: address == kept or WRITE(power, address, value)


def test_a_firewall_that_keeps_a_setting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each, in turn: it is read back before anything is loaded."""
    taken = [address for address, _ in good(folder) if address in chip.SETTINGS]
    for address in dict.fromkeys(taken):
        if address in SPARE:
            continue
        monkeypatch.setattr(Rk3576Power, "_write", keeping(address))
        report, power, carveout = serve(folder, s.signed(lenet()))
        assert (report.name, report.offset) == ("POWER", address)
        assert not power.is_on()
        assert not carveout.any()


def test_nobody_else_reaches_the_carve_out_while_the_gpu_is_on(folder: Path) -> None:
    """At each step; each master, in each world that it can have."""
    steps = 0

    def look(power: Rk3576Power) -> None:
        nonlocal steps
        if power.is_on() and power.log[0] != power.log[-1]:
            steps += 1
            assert not list(power.open_to())

    played(good(folder), look)
    assert steps
