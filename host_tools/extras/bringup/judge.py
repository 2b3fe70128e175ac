# SPDX-License-Identifier: BSD-2-Clause
"""How a board's console differs from that of an emulation, by class, and what to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import numpy as np

from host_tools.extras.bringup import compare
from host_tools.extras.bringup.console import STAGES, Console, Output, Said
from host_tools.support.results import Result, one_of
from tee_replayer.generator.status import Report
from trace_format import packing
from trace_format.profile import Profile

IDENTITY, POLICY, TIME, LAST_BITS, VALUE, MISSING = (
    "identity",
    "register policy",
    "time",
    "last bits",
    "value",
    "missing",
)
CLASSES = (IDENTITY, POLICY, TIME, LAST_BITS, VALUE, MISSING)
REPLAYS = ("irq", "fault", "copy", "lenet", "thousand")
FACTOR = 2.0  # between times that are told
LEAST_US = 50
FAILED = Said(False, {})


class Finding(Result):
    """A value that differs.

    Attributes:
        kind: Its class.
        what: The value's name.
        change: What to look at, or to change.
    """

    stage: Annotated[str, one_of(*STAGES)]
    kind: Annotated[str, one_of(*CLASSES)]
    what: str
    expected: str
    found: str
    change: str


def judged(board: Console, wanted: Console, gpu: Profile) -> list[Finding]:
    """All values that differ, in the order of stages.

    Args:
        board: what the board said.
        wanted: what the emulation said, with the kit's further lines.
        gpu: the board's.
    """
    found = [
        *_missing(board),
        *_lost(board, wanted),
        *_request(board),
        *_power(board),
        *_identity(board, wanted, gpu),
        *_registers(board, wanted, gpu),
        *_replays(board, wanted, gpu),
        *_outputs(board, wanted),
        *_times(board, wanted),
        *_ends(board, wanted),
    ]
    return sorted(found, key=lambda one: STAGES.index(one.stage))


def _missing(board: Console) -> Iterator[Finding]:
    """The first stage that was not said; those after a GPU that does not answer are not run."""
    stops = [name for name in ("power", "identity") if name in board.stages and not board.stages[name].ok]
    expected = STAGES if not stops else [*STAGES[: STAGES.index(stops[0]) + 1], "world", "handed-back"]
    absent = [name for name in expected if name not in board.stages]
    if absent:
        last = next((name for name in reversed(STAGES) if name in board.stages), "nothing")
        ends = f"the console ends after {last}"
        if board.exception is not None:
            ends += f" with an exception at {board.exception:#x}"
        help_ = "a hang in this stage; with no line at all the UART: pins, rate, place"
        yield Finding(absent[0], MISSING, "line", f"stage {absent[0]}", ends, help_)


def _lost(board: Console, wanted: Console) -> Iterator[Finding]:
    """Lines that a stage prints before its own, and the log has not: a serial line lost characters."""
    outputs = {name: board.outputs.get(name, {}) for name in wanted.outputs if board.stages.get(name, FAILED).ok}
    rows: list[tuple[str, str, Mapping[Any, object], Mapping[Any, object]]] = [
        ("registers", "register", wanted.registers, board.registers)
    ]
    rows += [(name, "output", wanted.outputs[name], there) for name, there in outputs.items()]
    rows += [("timing", "time", wanted.times, board.times)]
    for stage, what, expected, found in rows:
        absent = [key for key in expected if key not in found]
        if absent and stage in board.stages:
            first = f"{absent[0]:#010x}" if stage == "registers" else absent[0]
            help_ = "the serial line lost characters: log the console again"
            said = f"{len(absent)} lost or damaged, the first {first}"
            yield Finding(stage, MISSING, f"lines '{what}'", str(len(expected)), said, help_)


def _request(board: Console) -> Iterator[Finding]:
    said = board.stages.get("speaks")
    if said and said.values.get("request") != said.values.get("kit"):
        change = "request.bin of this kit at the mailbox's address, all of it"
        yield Finding("speaks", MISSING, "request", _hex(said, "kit"), _hex(said, "request"), change)


def _power(board: Console) -> Iterator[Finding]:
    said = board.stages.get("power")
    if said and not said.ok:
        at = f"{said.values.get('failed', 0):#x} does not answer"
        yield Finding("power", MISSING, "power register", "an answer", at, "the port: gr_board_gpu_on")


def _identity(board: Console, wanted: Console, gpu: Profile) -> Iterator[Finding]:
    said, other = board.stages.get("identity"), wanted.stages.get("identity")
    if said and other and said.values.get("seen") != other.values.get("seen"):
        change = f"another revision: [identity] of trace_format/gpus/{gpu.name}.toml takes it"
        if not said.ok:
            change = f"another GPU: [identity] of trace_format/gpus/{gpu.name}.toml, or the GPU's place"
        yield Finding("identity", IDENTITY, gpu.identity.name, _hex(other, "seen"), _hex(said, "seen"), change)
    for name in ("midr", "mpidr", "counter_hz"):
        here, there = board.stages.get("world"), wanted.stages.get("world")
        if here and there and here.values.get(name) != there.values.get(name):
            yield Finding("world", IDENTITY, name, _hex(there, name), _hex(here, name), "a fact to note")


def _registers(board: Console, wanted: Console, gpu: Profile) -> Iterator[Finding]:
    for offset, expected in wanted.registers.items():
        found, one = board.registers.get(offset), gpu.by_offset.get(offset)
        if found is None or one is None or offset == gpu.identity.offset:
            continue
        if (found ^ expected) & ~(one.volatile | one.busy) & 0xFFFF_FFFF:
            kind = IDENTITY if "IDENT" in one.name else POLICY
            change = f"{one.name} in trace_format/gpus/{gpu.name}.toml: reset, or volatile where it changes"
            yield Finding("registers", kind, one.name, f"{expected:#010x}", f"{found:#010x}", change)


def _replays(board: Console, wanted: Console, gpu: Profile) -> Iterator[Finding]:
    """Each way in which replays fail, once: where it is seen first."""
    seen: set[tuple[int, int]] = set()
    for name in REPLAYS:
        said, other = board.stages.get(name), wanted.stages.get(name)
        if said is None or other is None:
            continue
        if "status" not in said.values:
            change = "request.bin at the mailbox's address, all of it"
            yield Finding(name, MISSING, "request", "a request", "none", change)
            return
        status = said.values["status"]
        cause = status, said.values.get("offset", 0)
        if status != other.values.get("status") and cause not in seen:
            seen.add(cause)
            yield _failed(name, said, other, gpu)
        elif name == "fault" and status == other.values.get("status"):
            yield from _fault(said, other, gpu)
        if said.values.get("retries"):
            found, change = (
                f"{said.values['retries']} retries",
                "an interrupt or a register that is there at times",
            )
            yield Finding(name, MISSING, "attempt", "no retry", found, change)
        if said.values.get("differing"):
            found = (
                f"{said.values['differing']} others, the first in replay {said.values.get('first_differing', 0)}"
            )
            yield Finding(name, VALUE, "outputs", "the same each time", found, "caches and order; power and clock")


def report_of(said: Said) -> Report:
    """The report of a stage that is a replay, as far as the console has it."""
    empty = packing.unpack("report", bytes(packing.size_of("report")))
    keys = ("status", "phase", "action", "op", "offset", "expected", "seen", "retries", "jobs")
    return Report(**{**empty, **{key: said.values.get(key, 0) for key in keys}})


def _failed(name: str, said: Said, other: Said, gpu: Profile) -> Finding:
    report = report_of(said)
    lost = {"NO_IRQ": "the interrupt's number and its level at the GIC", "OK": "faults reach no register"}
    change = lost.get(report.name, f"the register's row in trace_format/gpus/{gpu.name}.toml, or the timeout")
    wanted = report_of(other).name
    found = report.describe(gpu) if not report.ok else "no fault"
    return Finding(name, MISSING if report.name in lost else POLICY, "status", wanted, found, change)


def _fault(said: Said, other: Said, gpu: Profile) -> Iterator[Finding]:
    for key, what in (("expected", "place of the fault"), ("seen", "bits of the fault")):
        if said.values.get(key) != other.values.get(key):
            change = f"[mmu] and fault bits in trace_format/gpus/{gpu.name}.toml"
            yield Finding("fault", POLICY, what, _hex(other, key), _hex(said, key), change)


def _outputs(board: Console, wanted: Console) -> Iterator[Finding]:
    """The first page that differs, or else the first output."""
    for stage in ("copy", "lenet"):
        here, there = board.outputs.get(stage, {}), wanted.outputs.get(stage, {})
        wrong = [name for name in there if name in here and here[name].sha256 != there[name].sha256]
        pages = [name for name in wrong if name.startswith("job")]
        if not wrong or not board.stages[stage].ok:
            continue
        first = (pages or wrong)[0]
        kind = _kind(here, there, wrong, wanted.before.get(first) == here[first].sha256)
        later = f", and {len(wrong) - 1} later outputs" if len(wrong) > 1 else ""
        found = f"{here[first].sha256[:16]}{later}" if kind != MISSING else f"not written{later}"
        change = {
            LAST_BITS: "an operation rounds otherwise: send the mailbox, `prove read` names the word",
            MISSING: "a write did not reach memory: cleaning of the GPU's caches, the CPU's attributes",
            VALUE: "an operation, or memory: send the mailbox, `prove read` names the word",
        }[kind]
        yield Finding(stage, kind, first, there[first].sha256[:16], found, change)
        return


def _kind(here: dict[str, Output], there: dict[str, Output], wrong: list[str], is_old: bool) -> str:
    """How outputs differ, as far as hashes and the words of small outputs tell."""
    if is_old:
        return MISSING
    words = [(here[name].words, there[name].words) for name in wrong if there[name].words]
    if not words:
        return VALUE
    for one, two in words:
        a, b = np.array(one, np.uint32), np.array(two, np.uint32)
        if a.shape != b.shape:
            return VALUE
        codes = compare.kinds_of(a, b, np.zeros_like(b), np.ones(b.shape, np.bool_))
        if (codes > compare.KINDS.index(compare.LAST_BITS) + 1).any():
            return VALUE
    return LAST_BITS


def _times(board: Console, wanted: Console) -> Iterator[Finding]:
    """The whole network's time, and else the first job's, which has the interrupt in it."""
    if not board.times or not wanted.times:
        return
    last = max(wanted.times)
    rows = [
        ("timing", "us of the network", board.times.get(last, {}), wanted.estimates.get(last), wanted.times[last]),
        ("irq", "us of the first job", board.times.get(0, {}), wanted.estimates.get(0), wanted.times.get(0, {})),
    ]
    for stage, what, here, estimate, there in rows:
        us, expected = here.get("us"), estimate or there.get("us")
        if not us or not expected or abs(us - expected) < LEAST_US:
            continue
        if not 1 / FACTOR < us / expected < FACTOR:
            change = "clock of the GPU, or late interrupts: --times, then `speed calibrate` fits timing.toml"
            yield Finding(stage, TIME, what, str(expected), f"{us}, {us / expected:.1f} times as much", change)
            return


def _ends(board: Console, wanted: Console) -> Iterator[Finding]:
    said = board.stages.get("handed-back")
    if said and not said.ok:
        left, failed = said.values.get("left", 0), said.values.get("failed", 0)
        found = f"{left} words left" if left else f"{failed:#x} does not answer"
        what = "wipe" if left else "power register"
        yield Finding("handed-back", MISSING, what, "nothing left", found, "the port: gr_board_gpu_off")
    if board.exception is not None and "handed-back" in board.stages:
        found = f"an exception at {board.exception:#x}"
        yield Finding("handed-back", MISSING, "end", "the last line", found, "firmware.map has the function")


def _hex(said: Said, name: str) -> str:
    value = said.values.get(name)
    return "nothing" if value is None else f"{value:#010x}"
