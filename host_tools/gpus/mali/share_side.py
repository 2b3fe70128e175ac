# SPDX-License-Identifier: BSD-2-Clause
"""What one of two networks does, as it becomes a part of both: steps in the job slot, the address space and on the
cores that it gets.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

from host_tools.families.shares import NotSharedError, Share
from host_tools.gpus.mali.job_manager import CONFIG_SPACE, resets, starts_chain
from trace_format.actions import ALL_BITS, Action, Actions, Op, action, actions_of
from trace_format.errors import printable
from trace_format.network import Network
from trace_format.profile import Profile
from trace_format.slots import Slot

FAILED = 0x70000  # bits of job.IRQ_*: a chain of any slot has failed
REGISTER_OPS = (Op.REG_READ_ONCE, Op.REG_READ_WAIT, Op.REG_WRITE, Op.REG_READ_KEEP, Op.REG_WRITE_KEPT)
READS = (Op.REG_READ_ONCE, Op.REG_READ_WAIT)
FACTS = re.compile(r"gpu\.(GPU_ID|\w+_FEATURES\w*|\w+_PRESENT\w*|THREAD_\w+)")  # the same at any time
SERVICE = re.compile(r"job\.(IRQ_(RAWSTAT|STATUS|CLEAR|MASK)|JS_STATE)")  # what a driver does when a job has ended


class Kind(enum.Enum):
    """What a step does.

    DO is for actions that need nothing of the other network; IDLE for those before which no job may run.
    """

    DO = enum.auto()
    IDLE = enum.auto()
    START = enum.auto()
    WAIT = enum.auto()


@dataclass(frozen=True)
class Step:
    kind: Kind
    actions: tuple[Action, ...]
    job: int = -1  # that starts or ends; counted as in `Share.us`

    @property
    def describes(self) -> bool:
        """Whether it is about registers only, or announces a job."""
        return self.kind is Kind.DO and self.actions[0].op in (*REGISTER_OPS, Op.JOB)


class Side:
    """One network, as it becomes a part of the whole.

    Args:
        slot, space: job slot and address space that it gets.
        present: the GPU's cores.

    Attributes:
        slower: how many times as long its jobs may take as on all cores.
        keeps: which kept value each of its becomes.
    """

    def __init__(self, gpu: Profile, share: Share, network: Network, slot: int, space: int, present: int) -> None:
        self.gpu, self.share, self.network, self.slot, self.space = gpu, share, network, slot, space
        self.slower = -(-present.bit_count() // share.cores.bit_count())
        self.keeps: dict[int, int] = {}
        self.first = space == 0
        self.own: dict[str, str] = {}  # "js" and "as" -> which one the recording uses
        self.job, self.running, self.has_run = -1, False, False
        self.at = 0  # of the network's actions, for messages

    def uses(self, slot: Slot) -> None:
        """A slot of the network lies in its address space; NotSharedError: it has several."""
        if self.own.setdefault("as", str(slot.address_space)) != str(slot.address_space):
            raise NotSharedError(
                f"{printable(self.share.name)}: its slots lie in several address spaces: expected one"
            )

    def prologue(self, rows: Actions) -> list[Action]:
        """What is done before any replay. The first network's makes the GPU ready for both."""
        found, last = list[Action](), -1
        if not self.first:
            last = max((at for at, row in enumerate(actions_of(rows)) if resets(self.gpu, row)), default=-1)
        for self.at, row in enumerate(actions_of(rows)):
            in_registers = row.op in REGISTER_OPS or row.op in (Op.WAIT_IRQ, Op.SET_GPU_PGTABLE)
            if self.at <= last and in_registers and not self._is_fact(row):
                continue  # a reset undoes it, and there is only the first network's
            for step in self._steps(row, replays=False):
                found += step.actions
        if self.running:
            raise self._fail("the prologue ends while a job runs")
        return found

    def replay(self, rows: Actions) -> list[Step]:
        """What is done in each replay."""
        found = list[Step]()
        begin = self.network.replay_start - self.network.first_action + 1
        for self.at, row in enumerate(actions_of(rows), begin):
            found += self._steps(row, replays=True)
        if self.running:
            raise self._fail("nothing waits for the last job")
        if not any(step.kind is Kind.START for step in found):
            raise self._fail("no job runs in a replay")
        return found

    def _steps(self, row: Action, replays: bool) -> Iterator[Step]:
        match row.op:
            case Op.WAIT_IRQ:
                yield from self._wait(row, replays)
            case Op.JOB:
                self.job += 1
                yield Step(Kind.DO, (row,), self.job)
            case Op.MAP_GPU_MEM | Op.UNMAP_GPU_MEM | Op.SET_GPU_PGTABLE:
                self._only("as", str(row.address_space))
                yield self._do(row.with_(address_space=self.space))
            case Op.OPERATE:  # the device waits until no job runs
                yield self._idle(row)
            case Op.IRQ_ENTER | Op.IRQ_EXIT:
                pass
            case _ if row.op in REGISTER_OPS:
                yield from self._access(row, replays)
            case _:
                yield self._do(row)

    def _access(self, row: Action, replays: bool) -> Iterator[Step]:
        name = self.gpu.describe(4 * row.register)
        block, _, rest = name.partition(".")
        if row.op in (Op.REG_READ_KEEP, Op.REG_WRITE_KEPT):
            if row.keep not in self.keeps:
                raise self._fail("a kept value is written that was never read")
            row = row.with_(keep=self.keeps[row.keep])
        if block.startswith("js"):
            yield self._in_slot(row, block, rest)
        elif block.startswith("as"):
            self._only("as", block[2:])
            moved = row.with_(register=self.gpu.register(f"as{self.space}.{rest}").index)
            yield self._idle(moved) if rest == "COMMAND" else self._do(moved)
        elif block == "job" and (replays or self.has_run or not self.first):
            self._check_service(row, name)
        elif self._is_fact(row) or row.op == Op.REG_READ_KEEP or (self.first and not replays):
            yield self._do(row)
        elif replays:
            raise self._fail(f"{name} is {'read' if row.op in READS else 'written'}, which concerns both networks")

    def _in_slot(self, row: Action, block: str, name: str) -> Step:
        self._only("js", block[2:])
        if block == "js0":
            raise self._fail("a job runs in job slot 0, which is for other jobs than those that compute")
        row = row.with_(register=self.gpu.register(f"js{self.slot}.{name}").index)
        if row.op != Op.REG_WRITE:
            return self._do(row)
        if row.mask != ALL_BITS:
            raise self._fail(f"{block}.{name} is written in part")
        if name == "COMMAND_NEXT" and starts_chain(row.value, row.mask):
            if self.job < 0:
                raise self._fail("a job starts that no Job announces")
            if self.running:
                raise self._fail("a job is queued behind another one")
            self.running = self.has_run = True
            return Step(Kind.START, (row,), self.job)
        if name == "AFFINITY_NEXT_LO":
            row = row.with_(value=self.share.cores & ALL_BITS)
        elif name == "AFFINITY_NEXT_HI":
            row = row.with_(value=self.share.cores >> 32)
        elif name == "CONFIG_NEXT":
            self._only("as", str(row.value & CONFIG_SPACE))
            row = row.with_(value=row.value & ~CONFIG_SPACE | self.space)
        return self._do(row)

    def _wait(self, row: Action, replays: bool) -> Iterator[Step]:
        """Until the network's own job has ended, whatever the other's does: by a mask of its own bit."""
        line = self.gpu.interrupts[row.line]
        if line != "job":
            if replays:
                raise self._fail(f"interrupt {line} is waited for, which concerns both networks")
            if self.first:
                yield self._do(row)
            return
        if not self.running:
            raise self._fail("a job's interrupt is waited for, and none runs")
        self.running = False
        bit = 1 << self.slot
        yield Step(
            Kind.WAIT,
            (
                self._write("job.IRQ_MASK", FAILED | bit),
                row.with_(timeout_us=min(row.timeout_us * self.slower, ALL_BITS)),
                action(
                    Op.REG_READ_ONCE,
                    register=self.gpu.register("job.IRQ_STATUS").index,
                    expected=bit,
                    mask=ALL_BITS,
                ),
                self._write("job.IRQ_CLEAR", bit),
            ),
            self.job,
        )

    def _check_service(self, row: Action, name: str) -> None:
        """It has no place here: `_wait` does the same for one slot. What it says of a job that has ended must be
        that all went well.
        """
        if not SERVICE.fullmatch(name) or row.op not in (Op.REG_READ_ONCE, Op.REG_WRITE):
            raise self._fail(f"{name} is not used as drivers do it when a job has ended")
        if row.op == Op.REG_READ_ONCE and name != "job.JS_STATE" and row.expected & row.mask & FAILED:
            raise self._fail("a job has failed in the recording")

    def _is_fact(self, row: Action) -> bool:
        """Whether it is a check of the GPU's identity, the same at any time."""
        return row.op in READS and bool(FACTS.fullmatch(self.gpu.describe(4 * row.register)))

    def _only(self, kind: str, number: str) -> None:
        what = {"js": "job slots", "as": "address spaces"}[kind]
        if self.own.setdefault(kind, number) != number:
            raise self._fail(f"it uses {what} {self.own[kind]} and {number}: expected one")

    def _do(self, row: Action) -> Step:
        return Step(Kind.DO, (row,))

    def _idle(self, row: Action) -> Step:
        if self.running:
            raise self._fail("something that needs an idle GPU comes between a job's start and its end")
        return Step(Kind.IDLE, (row,))

    def _write(self, name: str, value: int) -> Action:
        return action(Op.REG_WRITE, register=self.gpu.register(name).index, value=value, mask=ALL_BITS)

    def _fail(self, text: str) -> NotSharedError:
        return NotSharedError(f"{printable(self.share.name)}, action {self.at}: {text}")
