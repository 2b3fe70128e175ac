# SPDX-License-Identifier: BSD-2-Clause
"""What differs between two traces: jobs by their content, shaders by their instructions, memory by GPU address."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from host_tools.audit.jobs import Code, JobFacts, Jobs, jobs_of
from host_tools.audit.report.regions import LETTERS, regions
from host_tools.audit.report.words import purpose
from host_tools.model.description import describe_actions, describe_slot
from host_tools.model.frames import Mapping as PageMapping
from trace_format.actions import ACTIONS, Columns, Op, Type
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

CODE_FLAGS = 7  # bits that an address of code leaves free
CONTEXT = 2  # lines around a difference
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Change:
    """A value that differs; None: it is not there."""

    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class ChangedJob:
    """A job that is in both traces, and differs: its numbers, and in what."""

    old: int
    new: int
    what: list[str]


@dataclass(frozen=True)
class JobChanges:
    """Jobs, matched by what they execute and how much of it: not by their place, nor by addresses.

    Attributes:
        same: how many are.
        moved: numbers of those that only come in another order.
        removed, added: numbers, old and new.
    """

    same: int
    moved: list[tuple[int, int]]
    changed: list[ChangedJob]
    removed: list[int]
    added: list[int]


@dataclass(frozen=True)
class ChangedShader:
    """Code that a changed job executes in place of other code; `lines` is a unified diff of instructions."""

    old: str
    new: str
    jobs: list[int]
    instructions: tuple[int, int]
    lines: list[str]


@dataclass(frozen=True)
class ShaderChanges:
    """Shaders, by the SHA-256 of their bytes."""

    same: int
    changed: list[ChangedShader]
    removed: list[str]
    added: list[str]


@dataclass(frozen=True)
class MemoryChange:
    """A region in which what the trace puts into GPU memory differs: how many bytes, the first and the last."""

    address_space: int
    address: int
    purpose: str
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryChanges:
    """GPU memory.

    Attributes:
        compared: bytes that both traces put there.
        content: regions in which they differ.
        only_old, only_new: bytes that are mapped in one trace only.
        access: `rw -> r` -> bytes that the GPU may access otherwise.
        moved: bytes that lie elsewhere in secure memory, at the same GPU address.
    """

    compared: int
    content: list[MemoryChange]
    only_old: int
    only_new: int
    access: dict[str, int]
    moved: int


@dataclass(frozen=True)
class Difference:
    """All that differs; `diff` has the actions, as a unified diff of what `dump` prints.

    That leaves out operands without an effect, such as what is expected where any value will do: `same_actions` is
    about all bits.

    Attributes:
        same: whether nothing differs.
        same_actions: all bits of them, operands without an effect too.
        actions: by opcode: how many there are.
        notes: whether the notes differ, which devices pass over.
    """

    same: bool
    same_image: bool
    same_actions: bool
    manifest: list[Change]
    slots: list[Change]
    jobs: JobChanges
    shaders: ShaderChanges
    registers: list[Change]
    actions: list[Change]
    memory: MemoryChanges
    notes: bool
    diff: list[str]


def compare(old: Trace, new: Trace, names: tuple[str, str] = ("old", "new")) -> Difference:
    """Compare two traces.

    Args:
        old, new: whose actions are well-formed.
        names: of their files.
    """
    before, after = jobs_of(old), jobs_of(new)
    jobs = _jobs(before.jobs, after.jobs)
    lines = difflib.unified_diff(describe_actions(old), describe_actions(new), *names, lineterm="", n=CONTEXT)
    same_image = old.image == new.image
    same_actions = old.actions.tobytes() == new.actions.tobytes()
    manifest = _changes(_manifest(old), _manifest(new))
    slots = _changes({s.name: _slot(s) for s in old.slots}, {s.name: _slot(s) for s in new.slots})
    return Difference(
        same=same_image and same_actions and not (manifest or slots or old.notes != new.notes),
        same_image=same_image,
        same_actions=same_actions,
        manifest=manifest,
        slots=slots,
        jobs=jobs,
        shaders=_shaders(before, after, jobs),
        registers=_changes(_registers(old), _registers(new)),
        actions=_changes(_opcodes(old), _opcodes(new)),
        memory=_memory(old, new, before, after),
        notes=old.notes != new.notes,
        diff=list(lines),
    )


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[Change]:
    names = [*old, *(name for name in new if name not in old)]
    return [Change(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def _manifest(trace: Trace) -> dict[str, str]:
    sizes = {"carveout_bytes": trace.carveout_bytes, "va_bytes": trace.va_bytes, "image_bytes": len(trace.image)}
    meta = Trace.META_DEFAULTS | trace.meta
    found: dict[str, Any] = {"gpu": trace.gpu, "raw": trace.raw, **sizes, **meta}
    return {name: value.hex() if isinstance(value, bytes) else str(value) for name, value in found.items()}


def _slot(slot: Any) -> str:
    return f"{describe_slot(slot)}, address space {slot.address_space}, strides {list(slot.strides)}"


def _opcodes(trace: Trace) -> dict[str, str]:
    counts = Counter(Columns(trace.actions).op.tolist())
    return {ACTIONS[Op(op)].name: str(counts[op]) for op in sorted(counts)}


def _registers(trace: Trace) -> dict[str, str]:
    """Each register with how often it is read and written, and with what."""
    columns = Columns(trace.actions)
    read, write = columns.of(Type.REGISTER_READ), columns.of(Type.REGISTER_WRITTEN)
    values = np.where(columns.is_op(Op.REG_WRITE), columns.of(Type.BITS), -1)
    found = {}
    for index in np.unique(np.concatenate((read[read >= 0], write[write >= 0]))).tolist():
        written = np.unique(values[(write == index) & (values >= 0)]).tolist()
        text = f"{np.count_nonzero(read == index)} reads, {np.count_nonzero(write == index)} writes"
        if written:
            text += f" of {', '.join(f'{value:#x}' for value in written)}"
        found[trace.profile.describe(4 * index)] = text
    return found


def configuration(job: JobFacts) -> dict[str, int]:
    """What registers say of a job apart from addresses."""
    places = {item.va for item in job.named if item.va}
    return {
        name: value & CODE_FLAGS if value & ~CODE_FLAGS in places else value
        for name, value in job.registers.items()
        if "HEAD" not in name and "TAIL" not in name
    }


def _code(job: JobFacts) -> tuple[str, ...]:
    return tuple(code.digest for code in job.codes)


def _key(job: JobFacts) -> tuple[Any, ...]:
    return job.kind, _code(job), tuple(sorted(configuration(job).items()))


def _jobs(old: tuple[JobFacts, ...], new: tuple[JobFacts, ...]) -> JobChanges:
    keys = [_key(job) for job in old], [_key(job) for job in new]
    matcher = difflib.SequenceMatcher(None, *keys, autojunk=False)
    same, changed = 0, []
    removed: list[int] = []
    added: list[int] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            same += i2 - i1
            continue
        before, after = list(range(i1, i2)), list(range(j1, j2))
        for pair in _alike(old, new, before, after):
            before.remove(pair[0])
            after.remove(pair[1])
            changed.append(ChangedJob(*pair, _what(old[pair[0]], new[pair[1]])))
        removed += before
        added += after
    moved = []
    for i in list(removed):
        j = next((j for j in added if keys[0][i] == keys[1][j]), None)
        if j is not None:
            moved.append((i, j))
            removed.remove(i)
            added.remove(j)
    return JobChanges(same, moved, changed, removed, added)


def _alike(
    old: tuple[JobFacts, ...], new: tuple[JobFacts, ...], before: list[int], after: list[int]
) -> Iterator[tuple[int, int]]:
    """Pairs of jobs of one stretch that share their code or, failing that, their configuration; in order."""
    left, right = list(before), list(after)
    for alike in (_same_code, _same_configuration):
        for i in list(left):
            j = next((j for j in right if old[i].kind == new[j].kind and alike(old[i], new[j])), None)
            if j is not None:
                left.remove(i)
                right.remove(j)
                yield i, j


def _same_code(old: JobFacts, new: JobFacts) -> bool:
    return _code(old) == _code(new)


def _same_configuration(old: JobFacts, new: JobFacts) -> bool:
    return configuration(old) == configuration(new)


def _what(old: JobFacts, new: JobFacts) -> list[str]:
    found = []
    if _code(old) != _code(new):
        short = [", ".join(digest[:12] for digest in _code(job)) or "none" for job in (old, new)]
        found.append(f"shader {short[0]} -> {short[1]}")
    before, after = ({n: f"{v:#x}" for n, v in configuration(job).items()} for job in (old, new))
    found += [f"{c.name} {c.old or 'not written'} -> {c.new or 'not written'}" for c in _changes(before, after)]
    if old.work != new.work:
        found.append(f"{old.work} -> {new.work}")
    return found


def _shaders(before: Jobs, after: Jobs, jobs: JobChanges) -> ShaderChanges:
    old, new = ({code.digest: code for job in found.jobs for code in job.codes} for found in (before, after))
    pairs: dict[tuple[str, str], list[int]] = {}
    for change in jobs.changed:
        for a, b in zip(before.jobs[change.old].codes, after.jobs[change.new].codes, strict=False):
            if a.digest != b.digest:
                pairs.setdefault((a.digest, b.digest), []).append(change.new)
    changed = [
        ChangedShader(a, b, users, (len(old[a].lines), len(new[b].lines)), _instructions(old[a], new[b]))
        for (a, b), users in pairs.items()
    ]
    replaced = {name for pair in pairs for name in pair}
    return ShaderChanges(
        len(old.keys() & new.keys()),
        changed,
        [name for name in old if name not in new and name not in replaced],
        [name for name in new if name not in old and name not in replaced],
    )


def _instructions(old: Code, new: Code) -> list[str]:
    names = old.digest[:12], new.digest[:12]
    return list(difflib.unified_diff(old.lines, new.lines, *names, lineterm="", n=CONTEXT))


def _memory(old: Trace, new: Trace, before: Jobs, after: Jobs) -> MemoryChanges:
    maps = _mapped(before), _mapped(after)
    compared, moved = 0, 0
    access: Counter[str] = Counter()
    places: dict[tuple[int, int], tuple[int, int, int]] = {}  # page -> bytes that differ, first, last
    for key in sorted(maps[0].keys() & maps[1].keys()):
        a, b = maps[0][key], maps[1][key]
        moved += PAGE_BYTES * (a.frame != b.frame)
        if a.flags != b.flags:
            access[f"{_letters(a.flags)} -> {_letters(b.flags)}"] += PAGE_BYTES
        left, right = before.content.page(a.frame), after.content.page(b.frame)
        if left is None or right is None:
            continue
        compared += PAGE_BYTES
        wrong = np.flatnonzero(left != right)
        if len(wrong):
            places[key] = len(wrong), key[1] * PAGE_BYTES + int(wrong[0]), key[1] * PAGE_BYTES + int(wrong[-1])
    content = []
    for region in regions(new, after, None) if places else ():
        pages = range(region.address // PAGE_BYTES, (region.address + region.bytes) // PAGE_BYTES)
        here = [places[key] for page in pages if (key := (region.address_space, page)) in places]
        if here:
            counts, firsts, lasts = zip(*here, strict=True)
            content.append(
                MemoryChange(
                    region.address_space, region.address, purpose(region), sum(counts), min(firsts), max(lasts)
                )
            )
    return MemoryChanges(
        compared,
        content,
        PAGE_BYTES * len(maps[0].keys() - maps[1].keys()),
        PAGE_BYTES * len(maps[1].keys() - maps[0].keys()),
        dict(sorted(access.items())),
        moved,
    )


def _mapped(jobs: Jobs) -> dict[tuple[int, int], PageMapping]:
    """Where each page leads, in the latest mappings that have it."""
    return {key: mapping for epoch in jobs.epochs for key, mapping in epoch.items()}


def _letters(flags: int) -> str:
    return "".join(letter for bit, letter in LETTERS if flags & bit) or "-"
