# SPDX-License-Identifier: BSD-2-Clause
"""Writes a trace as text; `host_tools.text.reader` reads it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from host_tools.text.action_lines import ActionLines
from host_tools.text.image_lines import Marks, base64_lines, image_lines
from host_tools.text.storage import NAMES, Storage, is_canonical, notes_of, storage_of
from host_tools.text.words import quoted, value_words
from trace_format import networks
from trace_format.actions import ACTIONS, Action, Op, Type, actions_of
from trace_format.network import Network
from trace_format.schema import Codec, SectionType
from trace_format.slots import Slot
from trace_format.trace import Trace

VERSION = 1
FIRST_LINE = f"gramophone-trace {VERSION}"
# How numbers of the manifest are written; those that are not here, in decimal.
IN_HEX = ("core_mask", "revision_min", "revision_max", "carveout_bytes", "va_bytes")


@dataclass
class Annotations:
    """Comments: of actions by index, before them, and of places in the image."""

    actions: dict[int, list[str]] = field(default_factory=dict)
    marks: Marks = field(default_factory=Marks)


def text_of(data: bytes, trace: Trace, annotations: Annotations) -> Iterator[str]:
    """The lines of a trace's text.

    Args:
        data: its file, without a signature.
        trace: what `Trace.parse` makes of it.
        annotations: comments; `gramophone assemble` passes over them.
    """
    yield FIRST_LINE
    yield f"# trace_id {trace.trace_id.hex()}, {trace.jobs} jobs, {len(trace.actions)} actions"
    yield ""
    yield from _manifest(trace)
    yield ""
    yield from map(slot_line, trace.slots)
    yield from map(network_line, trace.networks)
    yield from _notes(data, trace)
    yield ""
    yield from _storage(storage_of(data))
    yield ""
    yield from _actions(trace, annotations)
    yield ""
    yield f"image {len(trace.image)}"
    yield from (f"  {line}" for line in image_lines(trace.image, annotations.marks))


def _manifest(trace: Trace) -> Iterator[str]:
    yield "manifest"
    values = {
        "gpu": trace.gpu,
        "profile_id": f"{trace.profile.profile_id:#018x}",
        "raw": "yes" if trace.raw else "no",
        "carveout_bytes": trace.carveout_bytes,
        "va_bytes": trace.va_bytes,
        **(Trace.META_DEFAULTS | trace.meta),
    }
    for key, value in values.items():
        if isinstance(value, bytes):
            word = value.hex()
        elif isinstance(value, int):
            word = f"{value:#x}" if key in IN_HEX else str(value)
        else:
            word = quoted(value) if key in Trace.META_DEFAULTS else value
        yield f"  {key} {word}"


def slot_line(slot: Slot) -> str:
    """A slot: `slot "data" input float32 [1, 28, 28] strides [3136, 112, 4] at 0x00260000 as0 bound`."""
    bound = " bound" if slot.bound else ""
    return (
        f"slot {quoted(slot.name)} {slot.kind.name.lower()} {slot.dtype.name.lower()} {list(slot.shape)} "
        f"strides {list(slot.strides)} at {slot.address:#010x} as{slot.address_space}{bound}"
    )


def network_line(network: Network) -> str:
    """A network: `network "digits" first_action 0 ... image [0:12, 14:20]`, and `exclusive` or nothing."""
    numbers = " ".join(f"{name} {getattr(network, name)}" for name in networks.NUMBERS)
    image = ", ".join(f"{first}:{end}" for first, end in network.image)
    return f"network {quoted(network.name)} {numbers} image [{image}]{' exclusive' if network.exclusive else ''}"


def _notes(data: bytes, trace: Trace) -> Iterator[str]:
    notes = notes_of(data)
    if notes is None:
        return
    yield ""
    if is_canonical(notes, trace):
        yield "notes"
        yield from (f"  {line}" for line in json.dumps(trace.notes, sort_keys=True, indent=2).split("\n"))
    else:
        yield f"notes base64 {len(notes)}"
        yield from base64_lines(notes)


def _storage(storage: Storage) -> Iterator[str]:
    yield "storage"
    yield f"  chunk_bytes {storage.chunk_bytes}"
    for section in storage.sections:
        name = NAMES[SectionType(section.type)] if section.type in list(SectionType) else f"section {section.type}"
        size = (
            f" {section.raw_bytes}" if section.type == SectionType.IMAGE or section.type not in list(NAMES) else ""
        )
        packed = f" base64 {len(section.packed)}" if section.packed is not None else ""
        yield f"  {name} {Codec(section.codec).name.lower()}{size}{packed}"
        if section.packed:
            yield from (f"  {line}" for line in base64_lines(section.packed))


def _actions(trace: Trace, annotations: Annotations) -> Iterator[str]:
    yield "actions"
    lines = ActionLines(trace.profile, [slot.name for slot in trace.slots])
    for index, row in enumerate(actions_of(trace.actions)):
        yield from (f"  # {text}" for text in annotations.actions.get(index, ()))
        yield f"  {lines.line(row)}{_beside(row, lines)}"


def _beside(row: Action, lines: ActionLines) -> str:
    """The number that a value by its fields stands for."""
    value = ACTIONS[Op(row.op)].find(Type.EXPECTED, Type.BITS)
    if value is None:
        return ""
    number: int = getattr(row, value.name)
    plain = f"{number:#010x}"
    return "" if value_words(number, lines.fields(row)) == plain else f"  # {plain}"
