# SPDX-License-Identifier: BSD-2-Clause
"""A row of the table of hostile traces, and how it is made from a good trace (hostile.py has the table)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any

import numpy as np

from signing.verify import Verdict
from tests.support import replayer_samples as s
from tests.support.replayer_samples import Parts
from trace_format import assembly, layout
from trace_format.actions import Op
from trace_format.assembly import DEFAULT_CHUNK_BYTES
from trace_format.errors import TraceError
from trace_format.operators import Operator
from trace_format.policy import PolicyError
from trace_format.schema import SectionType
from trace_format.streamed import parsed
from trace_format.trace import Trace

V3D, MALI = "v3d42", "mali_g71"
MIN_SECURITY_VERSIONS = {V3D: 3, MALI: 0}  # of the devices
HUGE = 0xFFFFFFFF
EVERYTHING = (1 << 64) - 1


@dataclass(frozen=True)
class Unseen:
    """This side does not see what is wrong, for a reason."""

    why: str


OfDevice = str | Unseen  # name of the status
OfHost = type[TraceError] | Verdict | Unseen
Edit = Callable[[Parts], Parts | bytes]
Row = tuple[str, Edit, OfDevice, OfHost]
REG = 2  # index of the write of a register in the samples' actions


@dataclass(frozen=True)
class Hostile:
    """A trace that breaks one rule.

    Attributes:
        name: unique for its GPU.
        make: makes the signed file.
        device: the status with which every device refuses it.
        host: the error of the host's parser or policy, or the verdict of its verification.
        gpu: for which GPU.
        inputs: slot name -> tensor, of those that are bound.
        hang: the GPU's first job never completes.
        starts: whether a job may start.
        operators: those that the device has.
    """

    name: str
    make: Callable[[], bytes]
    device: OfDevice
    host: OfHost
    gpu: str = V3D
    inputs: dict[str, Any] = attribute(default_factory=dict)
    hang: bool = False
    starts: bool = True
    operators: tuple[Operator, ...] = ()

    @property
    def min_security_version(self) -> int:
        """Of the devices that the row is for."""
        return MIN_SECURITY_VERSIONS[self.gpu]

    @property
    def status(self) -> str:
        """The device's status: "OK" where it does not see what is wrong."""
        return "OK" if isinstance(self.device, Unseen) else self.device

    @property
    def error(self) -> str:
        """What `by_host` answers: "" where the host does not see what is wrong."""
        match self.host:
            case Unseen():
                return ""
            case Verdict():
                return self.host.value
            case _:
                return self.host.__name__

    def __str__(self) -> str:
        return f"{self.gpu}: {self.name}"


def at(name: str, device: OfDevice, host: OfHost, index: int, **fields: int) -> Row:
    """A row with other fields of one action."""
    return name, lambda p: p.action(index, **fields), device, host


def access(name: str, op: Op, register: int) -> Row:
    """A row with an access that the policy does not allow, to a register by its index."""
    return at(name, "REGISTER", PolicyError, REG, op=op, arg=register, value=0, a=0)


def field(name: str, field_: str, value: int, device: OfDevice, host: OfHost) -> Row:
    """A row with another value of a field of the manifest."""
    return name, lambda p: p.manifest(field_, value), device, host


def good(**changes: Any) -> Trace:
    """The small trace of a V3D that the rows start from; nothing is wrong with it."""
    meta = {"name": "small", "security_version": MIN_SECURITY_VERSIONS[V3D]}
    return s.trace(**{"meta": meta} | changes)


def sealed(parts: Parts) -> bytes:
    """The file that a hostile owner of the key makes: id and hashes fit, whatever else does not."""
    return with_id(parts).signed()


def with_id(parts: Parts) -> Parts:
    """The trace's id as its actions and its image require, so that only one rule is broken."""
    try:
        sections = layout.disassemble(bytes(parts.data))[1]
        pieces = [p.decode() for p in [sections.one(SectionType.ACTIONS), *sections.all(SectionType.IMAGE)]]
        for part in sections.all(SectionType.PIECES):
            stream = sections.one(SectionType.STREAM)
            pieces += [bytes(p.data) for p in parsed(part.decode(), stream.stored, part.offset, stream.offset)]
    except TraceError:
        return parts
    at = parts.section(SectionType.MANIFEST)[1] + 64
    parts.data[at : at + 16] = hashlib.sha256(b"".join(pieces)).digest()[:16]
    return parts


def rows(
    table: Iterable[tuple[str, Edit, OfDevice, OfHost]], sample: Callable[[], Trace] = good, gpu: str = V3D
) -> tuple[Hostile, ...]:
    """Rows of traces that are refused when they are loaded.

    Args:
        table: name, edit, status of the device, error of the host. An edit gives the parts of a trace, to be
            hashed and signed, or the bytes of a file.
        sample: what is edited.
        gpu: for which GPU.
    """

    def make(edit: Edit) -> Callable[[], bytes]:
        def made() -> bytes:
            found = edit(Parts.of(sample()))
            return found if isinstance(found, bytes) else sealed(found)

        return made

    return tuple(Hostile(name, make(edit), device, host, gpu) for name, edit, device, host in table)


def resectioned(
    sample: Trace,
    change: Callable[[list[layout.Part]], None],
    slots: bytes | layout.Part = b"",
    more: bytes = b"",
) -> Parts:
    """A trace's parts with other sections in its body, other slots, more in its manifest; its layout is good."""
    parts = layout.disassemble(sample.build(compress=False))[1]
    head, body = list(parts[:2]), list(parts[3:])
    head[0] = layout.Part(SectionType.MANIFEST, bytes(head[0].stored) + more)
    if slots:
        head[1] = slots if isinstance(slots, layout.Part) else layout.Part(SectionType.SLOTS, slots)
    change(body)
    return Parts(bytearray(assembly.assemble(head, body, DEFAULT_CHUNK_BYTES, 0)))


INPUT = np.arange(6, dtype="<f4").reshape(2, 3)
