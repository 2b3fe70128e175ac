# SPDX-License-Identifier: BSD-2-Clause
"""Differences between two traces in words that a reviewer can sign: what differs, and that nothing else does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from host_tools.audit.compare import Change, Difference
from host_tools.audit.report.words import counted, jobs, size
from trace_format.errors import printable

MOST = 12  # of one kind that are listed
IDENTICAL = "The traces are the same: manifest, slots, notes, actions and image."


def sentences(found: Difference, *, actions: bool = False) -> list[str]:
    """The statement, in lines.

    Args:
        found: from `compare`.
        actions: list the actions that differ, too.
    """
    if found.same:
        return [IDENTICAL]
    lines: list[str] = []
    same: list[str] = []
    for name, text in (
        ("manifest", _rows(found.manifest)),
        ("slots", _rows(found.slots)),
        ("jobs", list(_jobs(found))),
        ("shaders", list(_shaders(found))),
        ("registers", _rows(found.registers)),
        ("GPU memory", list(_memory(found))),
        ("kinds of actions", _rows(found.actions)),
        ("notes", ["they differ; they have no effect on a device"] if found.notes else []),
    ):
        if text:
            lines += [f"{name}:", *(f"  {line}" for line in text)]
        else:
            same.append(name)
    lines += _rest(found, actions)
    lines.append(f"The same: {', '.join(same) or 'none of the above'}.")
    lines.append("Nothing else differs.")
    return [*lines, *(found.diff if actions else [])]


def _rest(found: Difference, actions: bool) -> Iterator[str]:
    """Actions and image, which are what a device gets: all of them."""
    if found.diff:
        minus = sum(line.startswith("-") for line in found.diff[2:])
        plus = sum(line.startswith("+") for line in found.diff[2:])
        yield (
            f"actions: {counted(minus, 'action')} of the old trace and {counted(plus, 'action')} of the new one "
            f"differ{': see below' if actions else '; --actions lists them'}"
        )
    elif not found.same_actions:
        yield "actions: operands differ, but only such as have no effect"
    if not found.same_image:
        yield "image: its bytes differ" + (
            "" if found.memory.content else "; what it puts into GPU memory at addresses of both traces does not"
        )


def _rows(changes: Sequence[Change]) -> list[str]:
    found = []
    for change in changes:
        name = printable(change.name)
        if change.old is None:
            found.append(f"{name}: added, {printable(change.new or '')}")
        elif change.new is None:
            found.append(f"{name}: removed, was {printable(change.old)}")
        else:
            found.append(f"{name}: {printable(change.old)} -> {printable(change.new)}")
    return found


def _jobs(found: Difference) -> Iterator[str]:
    change = found.jobs
    if not (change.moved or change.changed or change.removed or change.added):
        return
    yield f"{counted(change.same, 'job')} the same, by code and configuration"
    for pair in change.changed:
        yield f"job {pair.old} -> job {pair.new}: {'; '.join(pair.what)}"
    for old, new in change.moved:
        yield f"job {old} -> job {new}: the same, in another order"
    if change.removed:
        yield f"removed: {jobs(change.removed)} (numbers of the old trace)"
    if change.added:
        yield f"added: {jobs(change.added)} (numbers of the new trace)"


def _shaders(found: Difference) -> Iterator[str]:
    change = found.shaders
    if not (change.changed or change.removed or change.added):
        return
    yield f"{counted(change.same, 'shader')} the same"
    for pair in change.changed:
        minus = sum(line.startswith("-") for line in pair.lines[2:])
        plus = sum(line.startswith("+") for line in pair.lines[2:])
        before, after = pair.instructions
        what = (
            f"{minus} of {counted(before, 'instruction')} replaced by {plus}, now {after}"
            if before and after
            else "their instructions cannot be shown"
        )
        yield f"{pair.old[:12]} -> {pair.new[:12]}, of jobs {jobs(pair.jobs)}: {what}"
        yield from (f"  {line}" for line in pair.lines[2:])
    for name, digests in (("removed", change.removed), ("added", change.added)):
        if digests:
            more = f" and {len(digests) - MOST} more" if len(digests) > MOST else ""
            yield f"{name}: {', '.join(digest[:12] for digest in digests[:MOST])}{more}"


def _memory(found: Difference) -> Iterator[str]:
    memory = found.memory
    for region in memory.content:
        space = f"as{region.address_space} " if region.address_space else ""
        where = f"differ, from {region.first:#x} to {region.last:#x}"
        if region.bytes == 1:
            where = f"differs, at {region.first:#x}"
        yield f"{space}{region.address:#010x} ({printable(region.purpose)}): {size(region.bytes)} {where}"
    if memory.content:
        yield f"{size(memory.compared)} that both traces fill were compared"
    if memory.only_old:
        yield f"mapped by the old trace only: {size(memory.only_old)}"
    if memory.only_new:
        yield f"mapped by the new trace only: {size(memory.only_new)}"
    for access, count in memory.access.items():
        yield f"access {access}: {size(count)}"
    if memory.moved:
        yield f"elsewhere in secure memory, at the same GPU addresses: {size(memory.moved)}"
