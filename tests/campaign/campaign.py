# SPDX-License-Identifier: BSD-2-Clause
"""The campaign: cases, kinds of faults and parts of the runs, put together."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tee_replayer.generator.status import statuses
from tests.campaign import cases, computing, device, networks, optee, report, runner, sampling
from tests.campaign.device import BARE_METAL, Device
from tests.campaign.faults import Do, Kind, Run
from tests.campaign.runner import Bench
from tests.support import replayer_samples as s
from tests.support.trace_samples import offset_of
from trace_format.schema.firmware import DEVICE_MAGIC

PAIR = "pair"  # in tables, of two faults
DENSE = ("before", "ours", "tail")  # parts of a run that pairs are of
# Functions of features/operators/operate.c.
COMPUTING = (
    *(
        "gr_operate",
        "gr_operator_copy",
        "gr_check_operator",
        "elements_in_a_row",
        "elements_from",
        "element",
        "gr_put",
        "gr_get",
        "fits",
    ),
)


@dataclass
class Result:
    """What a campaign found.

    Attributes:
        table: the counts.
        findings: what got through.
        left_out: cases that were not tried, for lack of time.
        spoilt: cases that prove nothing, and why: not refused without a fault, or the control is not accepted.
    """

    table: report.Table = field(default_factory=report.Table)
    findings: list[report.Finding] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    spoilt: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing got through, in cases that all could have shown it."""
        return not self.spoilt and all(counts.ok for counts in self.table.rows.values())


def outcome_name(outcome: npt.NDArray[Any]) -> str:
    """Status of a run's answer, or how it ended instead."""
    if not outcome["answered"][0]:
        return runner.End(int(outcome["end"][0])).name.lower()
    status = statuses().get(int(outcome["status"][0]))
    return status.name if status else f"{outcome['status'][0]:#x}"


def _changed(of: Device, change: Callable[[bytes], bytes]) -> Device:
    """The device with other contents of its segments."""
    segments = tuple((at, change(data)) for at, data in of.firmware.segments)
    return replace(of, firmware=replace(of.firmware, segments=segments))


@dataclass(frozen=True)
class Campaign:
    """Attacks firmwares.

    Args:
        folder: for programs, firmwares and files.
        shares: how many instructions are attacked, by path of a device.
        jobs: processes at a time.
        pairs: how many pairs of faults are tried in each case, besides.
        seed: of these.
        functions: patterns of names; only instructions of such functions are attacked; () for all.
    """

    folder: Path
    shares: dict[str, sampling.Shares]
    jobs: int = os.cpu_count() or 1
    pairs: int = 0
    seed: int = 1
    functions: tuple[str, ...] = ()

    @functools.cached_property
    def _program(self) -> Path:
        return runner.compile_program(self.folder)

    def device(self, gpu: str, path: str = BARE_METAL, profile: str = device.PLAIN) -> Device:
        """The program of a GPU."""
        folder = self.folder / f"{gpu}-{path}-{profile}"
        if path == device.OPTEE:
            return optee.build(gpu, folder)
        return device.build(gpu, folder, path=path, profile=profile)

    def believing(self, gpu: str, path: str = BARE_METAL) -> Device:
        """The program of a GPU, less what refuses faults that stay."""
        return device.build(gpu, self.folder / f"{gpu}-{path}-believing", path=path, changes=device.BELIEVING)

    def bench(self, of: Device, case: cases.Case, attempt: cases.Attempt, name: str) -> Bench:
        """A trace before a firmware."""
        folder = self.folder / f"{of.gpu}-{of.path}-{of.profile}-{case.name}-{name}"
        return Bench(self._program, of, attempt, folder, case.control(of.gpu))

    def controls(self, of: Device, case: cases.Case, found: npt.NDArray[Any]) -> list[str]:
        """What is wrong with a case without any fault; nothing, or the campaign would show nothing.

        Args:
            of: the device.
            case: the case.
            found: outcome of its trace, without a fault.
        """
        wrong = []
        answer, writes = outcome_name(found), runner.written(found)[0]
        if answer != case.status or writes:
            seen = f"{answer}, and a write" if writes else answer
            wrong.append(
                f"{of.name}, {case.name}: the trace without a fault: expected {case.status}, found {seen}"
            )
        found = self.bench(of, case, case.control(of.gpu), "control").outcome()
        answer, writes = outcome_name(found), runner.written(found)[0]
        if not runner.accepted(found)[0] or not writes:
            seen = answer if writes else f"{answer}, and no write"
            wrong.append(f"{of.name}, {case.name}: the control: expected OK and a write, found {seen}")
        return wrong

    def planted(self, of: Device) -> npt.NDArray[Any]:
        """The stranger's trace on a device whose key was exchanged for the stranger's: its outcome."""
        case = cases.case_of(of.gpu, "stranger")
        weak = _changed(of, lambda code: code.replace(s.KEY.raw, cases.STRANGER.public.raw))
        return self.bench(weak, case, case.refused(of.gpu), "planted").outcome()

    def misled(self, of: Device, field: str, value: bytes) -> Device:
        """The device with another value in a field of its constant."""

        def change(code: bytes) -> bytes:
            at = code.find(DEVICE_MAGIC) + offset_of("device", field)
            return code[:at] + value + code[at + len(value) :] if DEVICE_MAGIC in code else code

        return _changed(of, change)

    def weakened(self, of: Device) -> Device:
        """The device with the stranger's key as its second copy: to exchange the first is enough."""

        def second(code: bytes) -> bytes:
            ours, at = s.KEY.raw, code.index(DEVICE_MAGIC)
            behind = code.index(ours, at) + len(ours)  # the first copy: in the device's constant
            before, after = (part.replace(ours, cases.STRANGER.public.raw) for part in (code[:at], code[behind:]))
            return before + code[at:behind] + after

        return _changed(of, lambda code: second(code) if DEVICE_MAGIC in code else code)

    def attack(self, of: Device, case: cases.Case, kinds: Sequence[Kind], result: Result) -> None:
        """Inject all faults of a case."""
        bench = self.bench(of, case, case.refused(of.gpu), "refused")
        run, found = bench.run()
        result.spoilt += self.controls(of, case, found)
        good = case.status == "OK"
        if not good and (runner.accepted(found)[0] or runner.written(found)[0]):
            return  # it needs no fault
        attacked = networks.TURNING if bench.attempt.turns else COMPUTING
        functions = self.functions or (attacked if good and case.promised else ())
        parts = sampling.within(run, functions) if functions else sampling.parts(run)
        plans, names = [], [kind.name for kind in kinds]
        for kind in kinds:
            share = self._share(of).of(kind, case.status == "SIGNATURE")
            if kind.do == Do.CONSTANT:
                plans.append(run.plan_constants(share.library))
                result.table.rows[of.name, case.name, kind.name] = report.Counts(promised=case.promised)
                continue
            chosen = sampling.chosen(run, kind, parts, share)
            plans.append(run.plan(kind, np.concatenate([numbers for _, numbers in chosen.values()])))
            able = sum(count for count, _ in chosen.values())
            result.table.rows[of.name, case.name, kind.name] = report.Counts(
                instructions=able, promised=case.promised
            )
        if self.pairs:
            names.append(PAIR)
            plans.append(run.pairs(np.concatenate([parts[name] for name in DENSE]), self.pairs, self.seed))
            result.table.rows[of.name, case.name, PAIR] = report.Counts(promised=False)
        outcomes = bench.inject(run, found, np.concatenate(plans), self.jobs)
        ends = np.cumsum([len(plan) for plan in plans])
        for name, plan, mine in zip(names, plans, np.split(outcomes, ends[:-1]), strict=True):
            where = of.name, case.name, name
            counts = result.table.rows[where]
            if bench.attempt.writes or good:
                harmless = runner.accepted(mine) & ~runner.written(mine)
                counts.strayed += int((mine["strayed"][harmless] != 0).sum())
                counts.tried += int(harmless.sum())
                counts.harmless += int(harmless.sum())
                plan, mine = plan[~harmless], mine[~harmless]
            counts.add(mine)
            bad = runner.accepted(mine) | runner.written(mine)
            counts.unnoticed = self._unnoticed(of, case, run, plan[bad & (plan["kind"] >= Do.STAY)])
            through = report.findings(where, of.gpu, run, plan, mine)
            result.findings += through if case.promised else []

    def _share(self, of: Device) -> sampling.Shares:
        """How many of a device's instructions are attacked: fewer where each run makes two signatures."""
        return self.shares[device.LINKED if of.features.evidence.attestation else of.path]

    def _unnoticed(self, of: Device, case: cases.Case, run: Run, plan: npt.NDArray[Any]) -> int:
        """With how many of these faults, which stay, the control is accepted."""
        if not len(plan):
            return 0
        bench = self.bench(of, case, case.control(of.gpu), "unnoticed")
        there, unspoilt = bench.run()
        addresses = run.where(plan).tolist()
        first = there.first_of(set(addresses))
        is_constant = plan["kind"] == Do.CONSTANT
        is_there = is_constant | np.array([address in first for address in addresses])
        mine = plan[is_there]
        numbers = np.array([first.get(address, 0) for address in addresses])
        mine["number"] = np.where(is_constant, 0, numbers)[is_there]
        outcomes = bench.inject(there, unspoilt, mine, self.jobs)
        return int((~is_there).sum() + runner.accepted(outcomes).sum())

    def run(
        self,
        devices: Iterable[Device],
        names: Sequence[str],
        kinds: Sequence[Kind],
        on_case: Callable[[Device, cases.Case, Result], bool] = lambda _device, _case, _result: True,
    ) -> Result:
        """All cases of the devices, or those named; `on_case` says before each whether there is time."""
        result = Result()
        for of in devices:
            of_device = computing.cases_of(of)
            named = [case for case in (*of_device, cases.OWNERS) if case.name in names]
            for case in named if names else of_device:
                if on_case(of, case, result):
                    self.attack(of, case, kinds, result)
                else:
                    result.left_out.append(f"{of.name}: {case.title}")
        return result
