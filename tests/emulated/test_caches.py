# SPDX-License-Identifier: BSD-2-Clause
"""Caches and order: the checker finds nothing in our ports, and notices what is taken out of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from host_tools.runners import firmware
from host_tools.runners.caches.instructions import NOP
from host_tools.runners.caches.model import Rule
from host_tools.runners.firmware import Firmware
from tee_replayer.generator import boards
from tee_replayer.generator.board_checks import Range
from tee_replayer.generator.evidence import Evidence
from tee_replayer.generator.translation import Kind, cached_bytes
from tests.support import cache_plants as c
from tests.support import log_samples, logging_boot, rollback_samples
from tests.support import replayer_samples as s
from tests.support.cache_plants import PORTS
from tests.support.firmware_samples import kept
from tests.support.planted import Defect, plant
from tests.support.sampling import SomeOf
from trace_format.trace import Trace

pytestmark = pytest.mark.usefixtures("checked_caches")

WITH_MMU = [name for name in PORTS if name in ("qemu-virt, MMU", "rpi4", "hikey960", "rk3576")]


def sample(port: str) -> Trace:
    """A port's network."""
    return c.sample(PORTS[port].gpu)


def test_each_board_is_a_port() -> None:
    """A new board with bare-metal firmware needs a row."""
    assert {port.platform for port in PORTS.values()} == set(boards.names()) - {"optee"}


# Name of a run -> what is changed in the trace, what happens, and the report's status; no report: an exception.
EXCEPTION = ""
RUNS: dict[str, tuple[Callable[[Trace], Trace], dict[str, object], str]] = {
    "replay": (lambda trace: trace, {}, "OK"),
    "the interrupt alone before the copy": (c.waiting, {}, "OK"),
    "the register alone before the copy": (c.polling, {}, "OK"),
    "a job that hangs": (lambda trace: trace.with_(meta={**trace.meta, "retry_limit": 1}), {"hang_job": 1}, "OK"),
    "a job that faults": (
        lambda trace: trace.with_(meta={**trace.meta, "retry_limit": 1}),
        {"fault_job": 1},
        "OK",
    ),
    "an exception in a replay": (
        lambda trace: trace,
        {"at_start": c.exception_at("gr_port_write32", 20)},
        EXCEPTION,
    ),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("port", PORTS)
def test_our_ports_break_no_rule(port: str, name: str) -> None:
    change, happens, status = RUNS[name]
    row = PORTS[port]
    findings, report = c.run(row.load(), row.virtual, s.signed(change(sample(port))), **happens)  # type: ignore[arg-type]
    # The emulated core without MMU is promised no barrier that it does not need.
    expected = {Rule.LOAD_BEFORE_ANSWER} if row.is_ordered and change in (c.waiting, c.polling) else set()
    assert {found.rule for found in findings} == expected, "\n".join(map(str, findings))
    assert (report.name if report else EXCEPTION) == status


@pytest.mark.parametrize("port", WITH_MMU)
def test_what_is_refused_or_diverges_breaks_no_rule(port: str) -> None:
    row = PORTS[port]
    findings, report = c.run(row.load(), row.virtual, s.signed(sample(port))[:-64])
    assert report
    assert not report.ok
    assert not findings
    wrong = sample(port).actions.copy()
    wrong["value"][c.end_of_last_job(sample(port))[0] + 1] ^= 1  # of the register that says how the job ended
    findings, report = c.run(row.load(), row.virtual, s.signed(sample(port).with_(actions=wrong)))
    assert report
    assert report.name == "DIVERGED"
    assert not findings


def test_log_and_store_break_no_rule(tmp_path: Path) -> None:
    """With MMU and caches on; a finding ends the boot with an error."""
    evidence = Evidence(log=True, hashes=True, attestation=True)
    logged = kept("v3d42", evidence=evidence, mmu=True)
    store = tmp_path / "store"
    store.mkdir()
    (store / "device.secret").write_bytes(log_samples.SECRET)
    for _ in range(2):
        assert logging_boot.boot(logged, store, lambda *_: None, nonce=bytes(20), repeat=2).ok
    folder, flash = rollback_samples.with_store(s.KEY, mmu=True), tmp_path / "device.flash"
    for version, status in ((3, "OK"), (2, "ROLLBACK")):
        data = rollback_samples.by_key(version)
        assert rollback_samples.boot("unicorn", folder, s.KEY, flash, data).report.name == status


# Barriers and maintenance whose removal the model does not notice, and why the firmware has them all the same.
AFTER_THE_INTERRUPT = (
    "the driver reads a register after it, with the same barrier; `unordered_reads` takes out both"
)
EITHER = "one of two in a row, and either ends the write-back; `unfinished` takes out both"
AT_THE_END = (
    "it is for who turns EL3's MMU on again, and nobody does: the next stage runs at another exception level"
)
HAND_OVER = "it is about the interrupt controller and EL2's registers, and `eret` synchronises them too"
UNNOTICED = {
    "_start: isb 1": "VBAR_EL3 and CPTR_EL3 must be in effect for an exception and for floating point: no memory",
    "gr_core_start: isb 1": "SMPEN must be in effect before maintenance; the model takes its write for that",
    "gr_port_wait_word: dsb 1": AFTER_THE_INTERRUPT,
    "gr_port_wait_irq: dsb 1": AFTER_THE_INTERRUPT,
    "gr_mmu_off: dsb 1": EITHER,
    "gr_mmu_off: dsb 2": EITHER,
    "gr_mmu_off: tlbi alle3 1": AT_THE_END,
    "gr_mmu_off: ic iallu 1": AT_THE_END,
    "gr_mmu_off: isb 2": "it puts into effect what stands before it, which is for other code than what follows",
    "gr_next_world: dsb 1": HAND_OVER,
    "gr_next_world: isb 1": HAND_OVER,
}


def test_each_reason_is_for_an_instruction() -> None:
    there = {name for port in PORTS.values() for name, _ in c.named(port.load())}
    assert set(UNNOTICED) <= there


def noticed(port: str, fw: Firmware) -> set[Rule]:
    """Rules that a changed firmware breaks, and the port's does not."""
    row = PORTS[port]
    found: set[Rule] = set()
    for name in (c.polling, c.waiting):
        if not found:
            found = {finding.rule for finding in c.run(fw, row.virtual, s.signed(name(sample(port))))[0]}
            if row.is_ordered:
                found -= {Rule.LOAD_BEFORE_ANSWER}
    return found


@pytest.mark.parametrize("port", PORTS)
def test_what_is_taken_out_is_noticed_or_has_its_reason(port: str, some_of: SomeOf) -> None:
    """A NOP in the place of each barrier and each cache operation that is in the image, in turn."""
    fw = PORTS[port].load()
    wrong = {}
    for name, row in some_of(list(c.named(fw)), 3):
        found = noticed(port, c.without(fw, row))
        if bool(found) == (name in UNNOTICED):
            wrong[name] = found
    assert not wrong


# Words of AArch64 code: the firmware has the first of each.
DSB_SY, DSB_ISH, DSB_LD, DMB_SY = 0xD5033F9F, 0xD5033B9F, 0xD5033D9F, 0xD5033FBF
IVAC, CIVAC = 0xD5087620, 0xD50B7E20  # dc, x0
ADD_64, ADD_128 = 0x91010000, 0x91020000  # add x0, x0, #n
MOVZ_HIGH, LDR_LITERAL = 0xD2A00000, 0x58  # movz x0, #n, lsl #16; the upper byte of ldr x, constant
MAIR, ALL_CACHED = 0x44FF00, 0xFFFF00


def changed(function: str, old: int, new: int, number: int = 0) -> Callable[[Firmware], Firmware]:
    """Another word in a function, or among its constants, in the place of the `number`-th that is `old`."""

    def change(fw: Firmware) -> Firmware:
        places = [at for at, word in c.words(fw, function).items() if word == old]
        return c.patched(fw, {places[number]: new})

    return change


def load_of(fw: Firmware, function: str, number: int) -> tuple[int, int]:
    """Addresses of the `number`-th load of a constant in a function, and of the constant."""
    loads = [(at, word) for at, word in c.words(fw, function).items() if word >> 24 == LDR_LITERAL]
    at, word = loads[number]
    return at, at + (word >> 5 & (1 << 19) - 1) * 4


def shortened(function: str, number: int) -> Callable[[Firmware], Firmware]:
    """A page less in the place of the `number`-th constant that a function loads, the end of RAM."""

    def change(fw: Firmware) -> Firmware:
        _, place = load_of(fw, function, number)
        assert c.words(fw, function)[place] == sum(fw.ram)
        return c.patched(fw, {place: sum(fw.ram) - 0x1000})

    return change


def not_called(caller: str, called: str) -> Callable[[Firmware], Firmware]:
    """A NOP in the place of a call."""
    return lambda fw: c.patched(fw, {c.call(fw, caller, called): NOP})


def unordered_reads(fw: Firmware) -> Firmware:
    """No barrier after reads of registers."""
    rows = [
        row for name, row in c.named(fw) if name.startswith(("gr_port_wait", "gr_port_read32")) and "dsb" in name
    ]
    assert len(rows) == 2
    return c.patched(fw, {row.address: NOP for row in rows})


def unfinished(fw: Firmware) -> Firmware:
    """No barrier after what is written back at the end."""
    rows = [row for name, row in c.named(fw) if name.startswith("gr_mmu_off: dsb")]
    assert len(rows) == 2
    return c.patched(fw, {row.address: NOP for row in rows})


def only_the_tail(fw: Firmware) -> Firmware:
    """Of the carve-out only the cached part is dropped."""
    carveout = Range(fw.board.carveout_base, fw.board.carveout_bytes)
    at, place = load_of(fw, "gr_caches_drop", 4)
    assert c.words(fw, "gr_caches_drop")[place] == carveout.base  # which is also where the mailbox ends
    return c.patched(fw, {at: MOVZ_HIGH | (carveout.end - cached_bytes(carveout)) >> 16 << 5})


# Mistakes in the firmware of a Raspberry Pi 4, each with a rule that it breaks.
PLANTS: dict[str, tuple[Callable[[Firmware], Firmware], Rule]] = {
    "what the GPU reaches is mapped cacheable": (c.mapped_cached(Kind.UNCACHED), Rule.GPU_IN_CACHED),
    "the mailbox is mapped cacheable": (c.mapped_cached(Kind.SHARED), Rule.ANSWER_IS_CACHED),
    "MAIR makes all memory cacheable": (changed("gr_mmu_on", MAIR, ALL_CACHED), Rule.GPU_IN_CACHED),
    "the doorbell's barrier ends at the cores": (
        changed("gr_port_write32", DSB_SY, DSB_ISH),
        Rule.STORE_AFTER_DOORBELL,
    ),
    "the doorbell's barrier is one for loads": (
        changed("gr_port_write32", DSB_SY, DSB_LD),
        Rule.STORE_AFTER_DOORBELL,
    ),
    "no barrier after reads of registers": (unordered_reads, Rule.LOAD_BEFORE_ANSWER),
    "the answer's barrier is one for loads": (changed("gr_main", DSB_SY, DSB_LD), Rule.CONTENT_AFTER_ANSWER),
    "a DMB does not end maintenance": (changed("gr_caches_drop", DSB_SY, DMB_SY), Rule.UNCACHED_MEETS_OLD),
    "code is cleaned at the start": (changed("gr_caches_drop", IVAC, CIVAC), Rule.CODE_IS_OVERWRITTEN),
    "the request is invalidated": (changed("gr_caches_drop", CIVAC, IVAC), Rule.REQUEST_IS_DROPPED),
    "RAM is invalidated at the end": (changed("gr_mmu_off", CIVAC, IVAC), Rule.WRITTEN_IS_DROPPED),
    "every second line of the carve-out is dropped": (
        changed("gr_caches_drop", ADD_64, ADD_128, 2),
        Rule.CACHED_WHILE_OLD,
    ),
    "only the cached part of the carve-out is dropped": (only_the_tail, Rule.UNCACHED_MEETS_OLD),
    "a part of RAM is dropped": (shortened("gr_caches_drop", 3), Rule.CACHED_WHILE_OLD),
    "a part of RAM is written back": (shortened("gr_mmu_off", 2), Rule.NEXT_STAGE_MISSES),
    "no barrier ends what is written back": (unfinished, Rule.UNCACHED_MEETS_DIRTY),
    "nothing is dropped": (not_called("_start", "gr_caches_drop"), Rule.UNCACHED_MEETS_OLD),
    "the core takes no part in coherency": (not_called("_start", "gr_core_start"), Rule.NOT_COHERENT),
    "MMU and caches stay on": (not_called("gr_exit", "gr_mmu_off"), Rule.STAYS_ON),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PLANTS)
def test_planted_mistakes_are_found(name: str) -> None:
    change, rule = PLANTS[name]
    found = noticed("rpi4", change(PORTS["rpi4"].load()))
    assert rule in found, found


SWAPPED = (
    "    response->report = replayer.report;\n",
    "    *(volatile uint64_t *)&response->magic = MAILBOX_RESPONSE_MAGIC;\n",
)


@pytest.mark.exhaustive  # it is compiled again
def test_an_answer_that_changes_is_found(tmp_path: Path) -> None:
    """The magic comes first, the report after it."""
    report, magic = SWAPPED
    changes = (("main.c", report, magic + report), ("main.c", magic + "    const", "    const"))
    folder = plant(PORTS["rpi4"].folder, tmp_path / "out", [Defect("", "", changes)])
    assert noticed("rpi4", firmware.load(folder)) >= {Rule.ANSWER_CHANGES}
