# SPDX-License-Identifier: BSD-2-Clause
"""A raw trace of one GPU becomes one for another, by the rules of a rule file.

Fields of descriptors are changed in the image, where the bytes come from that are there when a
job starts. What leads to them (job chains, pointers) is read from the trace, so a value is changed where it means
what the rule is about and nowhere else.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from host_tools.families.family import family_of
from host_tools.families.retargeting import Applied
from host_tools.gpus.mali.descriptors import DRAW, HEADER, JOBS, POINTER, STATE, Job
from host_tools.gpus.mali.job_manager import ChainStarts
from host_tools.gpus.mali.rules import file
from host_tools.gpus.mali.rules.file import DescriptorRule, OperationRule, RegisterRule, RuleError, RuleFile
from host_tools.gpus.mali.rules.shaders import refused
from host_tools.model.image_view import UNKNOWN, ImageView, Offsets
from host_tools.model.job_names import name_before, names_by_action
from trace_format import profile
from trace_format.actions import (
    ALL_BITS,
    REGISTER_OPS,
    Action,
    Actions,
    Op,
    Type,
    actions_of,
    array_of,
    ops_with,
)
from trace_format.profile import Profile
from trace_format.registers import Register
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

LINE_OPS = ops_with(Type.LINE)
READS, WRITES = (Op.REG_READ_ONCE, Op.REG_READ_WAIT, Op.REG_READ_KEEP), (Op.REG_WRITE, Op.REG_WRITE_KEPT)


def retarget(trace: Trace, target: str) -> tuple[Trace, list[Applied]]:
    """Turn a recording into one for GPU `target`, with the rules that there are for the two GPUs.

    Raises:
        RuleError: there are no such rules, the trace is no raw recording, or a rule cannot be applied.
    """
    return apply(trace, file.load(trace.gpu, target))


def apply(trace: Trace, rules: RuleFile) -> tuple[Trace, list[Applied]]:
    """Apply the rules of a file to a raw trace of its source.

    Raises:
        RuleError: naming the rule, or the action that the target does not allow.
    """
    if trace.gpu != rules.source:
        raise RuleError("the rules are for another GPU", expected=rules.source, found=trace.gpu)
    if not trace.raw:
        raise RuleError("cannot convert a built trace for another GPU: expected a raw recording")
    places: Counter[str] = Counter()
    image = _Patcher(trace, rules, places).run()
    actions = _registers(trace, rules, places)
    applied = [Applied(rule.name, rule.reason, places[rule.name]) for rule in rules.rules]
    result = trace.with_(
        gpu=rules.target,
        actions=actions,
        image=image,
        va_bytes=min(trace.va_bytes, 1 << profile.load(rules.target).mmu["va_bits"]),
        meta=_meta(trace, rules),
        notes={
            **trace.notes,
            "recorded_on": rules.source,
            "rules": {"file": rules.file, "places": {a.rule: a.places for a in applied}},
        },
    )
    result.check()
    return result, applied


def _meta(trace: Trace, rules: RuleFile) -> dict[str, Any]:
    """The manifest's other fields: cores that must be there are those that jobs may run on."""
    meta = {k: v for k, v in trace.meta.items() if k not in ("revision_min", "revision_max")}
    for rule in rules.rules:
        if isinstance(rule, RegisterRule) and rule.cores is not None and "core_mask" in meta:
            meta["core_mask"] &= rule.cores
    return meta


class _Patcher:
    """Lets the actions happen and notes, at the start of every job chain, which bytes of the image to change."""

    def __init__(self, trace: Trace, rules: RuleFile, places: Counter[str]) -> None:
        self.trace = trace
        self.view = ImageView(trace)
        self.places = places
        self.descriptors = [r for r in rules.rules if isinstance(r, DescriptorRule)]
        self.operations = [r for r in rules.rules if isinstance(r, OperationRule)]
        self.shaders: set[tuple[int, int]] = set()
        self.starts = ChainStarts(trace.profile)
        self.patched = self.view.image.copy()
        self.targets: defaultdict[int, set[int]] = defaultdict(set)  # byte of the image -> carve-out offsets
        self.bits: defaultdict[int, dict[str, int]] = defaultdict(dict)  # byte of the image -> bits, by rule
        self.done: set[tuple[str, bytes]] = set()
        self.at = 0

    def run(self) -> bytes:
        """The image as the target needs it."""
        for at, row in enumerate(actions_of(self.trace.actions)):
            self.at = at
            self.view.take(row)
            started = self.starts.take(row)
            if started is not None:
                self._chain(*started)
        self._check_shared()
        return self.patched.tobytes()

    def _chain(self, space: int, va: int) -> None:
        seen: set[int] = set()
        while va:
            if va in seen:
                raise self._fail(f"the job chain comes back to {va:#x}")
            seen.add(va)
            if not self._header(space, va, "is 64b"):
                raise self._fail(f"the job at {va:#x} has a descriptor of 32 bits")
            kind = self._header(space, va, "type")
            for rule in self.descriptors:
                if rule.job == kind:
                    self._field(rule, space, va)
            if self.operations and kind in JOBS:
                self._shader(JOBS[kind], space, va)
            va = self._header(space, va, "next")

    def _shader(self, job: Job, space: int, va: int) -> None:
        """Refuse what the target lacks, in the job's code."""
        for part in job.parts.values():
            if part.descriptor is not DRAW:
                continue
            draw = self._read(space, va + part.offset, DRAW.size, "a draw descriptor")
            at = DRAW["state"].address(draw)
            code = at and STATE["shader"].address(self._read(space, at, STATE.size, "a renderer state"))
            if not code or (space, code) in self.shaders:
                continue
            self.shaders.add((space, code))
            what = refused(lambda at, size: self._read(space, at, size, "a shader"), code, self.operations)
            if what:
                raise self._fail(what)

    def _header(self, space: int, va: int, name: str) -> int:
        """A field of a job's header; of the others some may not be recorded, as the GPU writes them."""
        at, size = HEADER[name].words
        return HEADER[name].number(bytes(at) + self._read(space, va + at, size, "a job header"))

    def _field(self, rule: DescriptorRule, space: int, va: int) -> None:
        for offset, address in rule.pointers:
            va = self._number(space, va + offset, POINTER // 8, f"rule {rule.name}: a pointer") & address
            if not va:
                return  # this job has no such descriptor
        va += rule.offset
        if self._number(space, va, rule.bytes, f"rule {rule.name}: the field") & rule.mask == rule.before:
            found = self.view.locate(space, va, rule.bytes)
            assert found is not None
            self._patch(rule.name, *found, rule.mask, rule.after)

    def _number(self, space: int, va: int, size: int, what: str) -> int:
        return int.from_bytes(self._read(space, va, size, what), "little")

    def _read(self, space: int, va: int, size: int, what: str) -> bytes:
        found = self.view.locate(space, va, size)
        if found is None or (found[1] == UNKNOWN).any():
            state = "is not mapped" if found is None else "was not recorded"
            raise self._fail(f"{what} at GPU address {va:#x} {state}")
        return self.view.values(found[1]).tobytes()

    def _patch(self, name: str, where: Offsets, sources: Offsets, mask: int, value: int) -> None:
        for i, (place, source) in enumerate(zip(where.tolist(), sources.tolist(), strict=True)):
            bits, new = mask >> 8 * i & 0xFF, value >> 8 * i & 0xFF
            if not bits:
                continue
            if source < 0:
                raise self._fail(
                    f"rule {name}: the bytes at carve-out offset {place:#x} are cleared, not recorded"
                )
            for other, theirs in self.bits[source].items():
                if other != name and bits & theirs:
                    raise self._fail(f"rules {other} and {name} both apply at carve-out offset {place:#x}")
            self.bits[source][name] = bits
            self.patched[source] = int(self.patched[source]) & ~bits & 0xFF | new
            self.targets[source].add(place)
        key = (name, sources.tobytes())
        self.places[name] += key not in self.done
        self.done.add(key)

    def _check_shared(self) -> None:
        """A changed byte of the image must not be used where its rule does not apply."""
        for source, places in self.targets.items():
            if source // PAGE_BYTES in self.view.mapped:
                self._check_place(source, source, places)
        changed = np.array(sorted(self.targets), np.int64)
        for row in actions_of(self.trace.actions):
            if row.op != Op.UPLOAD:
                continue
            start, to = row.source, row.target
            first, end = np.searchsorted(changed, [start, start + row.bytes])
            for source in changed[first:end].tolist():
                self._check_place(source, to + source - start, self.targets[source])

    def _check_place(self, source: int, place: int, places: set[int]) -> None:
        if place not in places:
            raise RuleError(
                f"the rules change the image at {source:#x} for carve-out offset {min(places):#x}, but it is used "
                f"at {place:#x} too, where they do not apply"
            )

    def _fail(self, what: str) -> RuleError:
        name = name_before(names_by_action(self.trace), self.at)
        return RuleError(f"action {self.at}{f' ({name})' if name else ''}: {what}")


def _registers(trace: Trace, rules: RuleFile, places: Counter[str]) -> Actions:
    """The actions, with registers and interrupt lines of the target; each is one that a trace may touch there."""
    source, target = trace.profile, profile.load(rules.target)
    by_name = {name: rule for rule in rules.rules if isinstance(rule, RegisterRule) for name in rule.registers}
    lines = dict(_lines(source.interrupts, target.interrupts))
    kept: list[Action] = []
    written: set[str] = set()
    for at, row in enumerate(actions_of(trace.actions)):
        new = row
        if row.op in LINE_OPS:
            new = row.with_(line=lines[row.line])
        elif row.op in REGISTER_OPS:
            name = source.describe(row.register * 4)
            rule = by_name.get(name)
            if rule is not None:
                if row.op in (Op.REG_READ_KEEP, Op.REG_WRITE_KEPT):
                    raise RuleError(
                        f"action {at}: rule {rule.name}: {name} carries a value from a read to a write"
                    )
                if rule.cores is not None:
                    new = row.with_(value=row.value & rule.cores)
                elif row.op != Op.REG_WRITE or rule.to is None:
                    places[rule.name] += 1
                    continue
                else:
                    new = row.with_(value=rule.to, mask=ALL_BITS)
                    written.add(rule.name)
                places[rule.name] += new != row
            new = new.with_(register=_allowed(at, new, target.registers.get(name), name, target).index)
        kept.append(new)
    for missing in (rule for rule in by_name.values() if rule.required and rule.name not in written):
        raise RuleError(
            f"rule {missing.name}: the recording never writes {missing.registers[0]}, which {target.title} needs "
            f"({missing.reason})"
        )
    return array_of(kept)


def _lines(source: Sequence[str], target: Sequence[str]) -> Iterator[tuple[int, int]]:
    for index, name in enumerate(source):
        if name not in target:
            raise RuleError(f"the target has no interrupt line {name!r}; there are: {', '.join(target)}")
        yield index, target.index(name)


def _allowed(at: int, row: Action, register: Register | None, name: str, gpu: Profile) -> Register:
    """The register that an action touches, if a trace may do so; what a rule for it would have to change."""
    if register is None:
        raise RuleError(f"action {at}: {gpu.title} has no register {name}, and no rule is about it")
    if row.op in READS and not register.readable:
        raise RuleError(f"action {at}: a read of {name}, which is write-only on {gpu.title}; no rule is about it")
    if row.op == Op.REG_WRITE and family_of(gpu).fault_clears.fullmatch(name):
        return register  # `build` takes out what no trace may write
    if row.op in WRITES and not register.may_write:
        raise RuleError(
            f"action {at}: a write to {name}, which a trace for {gpu.title} may not do; no rule is about it"
        )
    if row.op == Op.REG_WRITE and not register.accepts(row.value, row.mask):
        must = f", {register.replay_set:#x} of them set" if register.replay_set else ""
        raise RuleError(
            f"action {at}: a write to {name}, and no rule is about it",
            expected=f"bits of {register.may_set:#x}{must}",
            found=f"{row.value & row.mask:#x}",
        )
    return register
