# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone diff`: what differs between two traces, or two images, in words that a reviewer can sign."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from host_tools.audit.compare import Change, Difference, compare
from host_tools.audit.compare_words import sentences
from host_tools.commands.facts import check_whole
from host_tools.commands.framework import FILE, STREAM, GramophoneCommand, Outcome
from host_tools.commands.results import Claim
from host_tools.commands.streams import read
from host_tools.commands.traces import parse_trace
from host_tools.flash.compare import ChangedPart, Parts, changed_parts, take_parts
from host_tools.support.messages import warn
from host_tools.support.results import Result
from trace_format.errors import printable
from trace_format.schema import SIGNED_MAGIC, TRACE_MAGIC

Claims = dict[str, str]


class Signatures(Result):
    """What the files say; nothing is verified."""

    old: Claim | None
    new: Claim | None


@dataclass(frozen=True)
class _Compared:
    kind: Literal["traces"]
    same: bool
    signatures: Signatures


@dataclass(frozen=True)
class TracesDiffer(Difference, _Compared):
    """What differs between two traces."""


class ImagesDiffer(Result):
    """What differs between two images.

    Attributes:
        made_for: What the firmware says of its device: platform, GPU, key, policy.
        parts: Those that differ.
        outside_parts: Whether only bytes outside of all parts differ.
        traces: By part: signed traces that are in both, and differ.
    """

    kind: Literal["images"]
    same: bool
    kinds: tuple[str, str]
    made_for: list[Change]
    parts: list[ChangedPart]
    outside_parts: bool
    same_parts: list[str]
    traces: dict[str, Difference]


@click.command(
    "diff",
    cls=GramophoneCommand,
    reads_traces=True,
    example=(
        "gramophone diff raw.gtr net.gtr\n"
        "gramophone diff net-1.sgtr net-2.sgtr --actions\n"
        "gramophone diff card-1.img card-2.img"
    ),
)
@click.argument("old", type=FILE)
@click.argument("new", type=FILE)
@click.option("--actions", is_flag=True, help="Also list different actions.")
def diff_command(old: Path, new: Path, actions: bool) -> Outcome[TracesDiffer | ImagesDiffer]:
    """Show all differences between two traces or two images.

    Exit status 1 if anything differs. Signatures are shown, not verified. Jobs of traces are matched by their
    code, memory by GPU addresses. Images are those of `flash`, and firmware; signed traces in them are also
    compared.
    """
    contents = [read(path) if path == STREAM or path.is_file() else None for path in (old, new)]
    if any(data is not None and data.startswith((TRACE_MAGIC, SIGNED_MAGIC)) for data in contents):
        return _traces(
            old, new, [read(p) if d is None else d for p, d in zip((old, new), contents, strict=True)], actions
        )
    before, after = (take_parts(path, data) for path, data in zip((old, new), contents, strict=True))
    return _images(old, new, before, after, actions)


def _traces(old: Path, new: Path, contents: list[bytes], actions: bool) -> Outcome[TracesDiffer]:
    (before, old_claim), (after, new_claim) = (
        parse_trace(data, str(path)) for path, data in zip((old, new), contents, strict=True)
    )
    check_whole(before, str(old))
    check_whole(after, str(new))
    found = compare(before, after, (str(old), str(new)))
    lines = [_header(old, new, "traces"), *_signatures(old_claim, new_claim), *sentences(found, actions=actions)]
    claims = Signatures(*(Claim(**claim) if claim else None for claim in (old_claim, new_claim)))
    data = TracesDiffer(kind="traces", signatures=claims, **vars(found))
    return Outcome(data, "\n".join(lines), ok=found.same)


def _header(old: Path, new: Path, what: str) -> str:
    return f"{what}: old {printable(str(old))}, new {printable(str(new))}"


def _signatures(old: Claims, new: Claims) -> list[str]:
    """What the files say of who signed them, where that differs."""
    if old == new:
        return []
    named = [f"{claim['algorithm']} key {claim['key_id']}" if claim else "none" for claim in (old, new)]
    return [f"signature (not verified): {named[0]} -> {named[1]}"]


def _images(
    old: Path, new: Path, before: Parts, after: Parts, actions: bool
) -> Outcome[TracesDiffer | ImagesDiffer]:
    changed = changed_parts(before.parts, after.parts)
    made_for = [
        Change(name, before.made_for.get(name), after.made_for.get(name))
        for name in dict.fromkeys((*before.made_for, *after.made_for))
        if before.made_for.get(name) != after.made_for.get(name)
    ]
    traces = {}
    for name in before.traces:
        if name in after.traces and before.parts[name] != after.parts[name]:
            names = f"{old}: {name}", f"{new}: {name}"
            first, second = before.parts[name], after.parts[name]
            traces[name] = compare(parse_trace(first, names[0])[0], parse_trace(second, names[1])[0], names)
    whole = before.whole, after.whole
    outside = not changed and None not in whole and whole[0] != whole[1]
    same = before.kind == after.kind and not (changed or made_for or outside)
    for path, parts in ((old, before), (new, after)):
        for finding in parts.findings:
            warn(f"{path}: {finding}")
    lines = [_header(old, new, "images")]
    if before.kind != after.kind:
        lines.append(f"kind: {before.kind} -> {after.kind}")
    if made_for:
        lines += [
            "made for:",
            *(f"  {c.name}: {c.old or 'not said'} -> {c.new or 'not said'}" for c in made_for),
        ]
    if changed:
        lines += ["parts:", *(f"  {_part(part)}" for part in changed)]
    for name, found in traces.items():
        lines += [f"trace in {printable(name)}:", *(f"  {line}" for line in sentences(found, actions=actions))]
    equal = [name for name in after.parts if before.parts.get(name) == after.parts[name]]
    if outside:
        lines.append("Bytes outside of all parts differ.")
    if same:
        lines.append("The images have the same parts, made for the same device.")
    else:
        lines.append(f"The same parts: {', '.join(map(printable, equal)) or 'none'}.")
        rest = list(dict.fromkeys(parts.rest for parts in (before, after) if parts.rest))
        lines += [f"Note: {text}." for text in rest] or ["Nothing else differs."]
    data = ImagesDiffer(
        kind="images",
        same=same,
        kinds=(before.kind, after.kind),
        made_for=made_for,
        parts=changed,
        outside_parts=outside,
        same_parts=equal,
        traces=traces,
    )
    return Outcome(data, "\n".join(lines), ok=same)


def _part(part: ChangedPart) -> str:
    """A part that differs, in words."""
    name = printable(part.name)
    if part.old_bytes is None:
        return f"{name}: added, {part.new_bytes} bytes"
    if part.new_bytes is None:
        return f"{name}: removed, had {part.old_bytes} bytes"
    sizes = (
        f"{part.old_bytes} bytes"
        if part.old_bytes == part.new_bytes
        else f"{part.old_bytes} -> {part.new_bytes} bytes"
    )
    if part.differ is None:
        return f"{name}: {sizes}, the same as far as both go"
    return f"{name}: {sizes}, {part.differ} differ, from {part.first:#x} to {part.last:#x}"
