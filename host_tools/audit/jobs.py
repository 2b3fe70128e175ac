# SPDX-License-Identifier: BSD-2-Clause
"""The jobs of a trace as its actions describe them, without a GPU: registers, code, what is mapped meanwhile."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from host_tools.audit.state import State
from host_tools.families.accesses import Followed, NotFollowedError
from host_tools.families.family import Named, Shader
from host_tools.model import frames
from host_tools.model.job_names import names_by_action
from host_tools.support.pages import pieces
from host_tools.vgpu.build import BuildError
from trace_format.actions import Action, Op, actions_of
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

Mappings = Mapping[tuple[int, int], frames.Mapping]


@dataclass(frozen=True)
class Code:
    """Code that jobs execute.

    Attributes:
        space, va: where it lies: address space and GPU address.
        data: its bytes, as far as they are known.
        lines: its instructions as text; empty where nothing can tell.
        flaw: why it ends where it does, or is not shown; "" if there is nothing to say.
    """

    space: int
    va: int
    data: bytes = field(repr=False)
    lines: tuple[str, ...] = field(repr=False)
    flaw: str

    @property
    def digest(self) -> str:
        """SHA-256 of its bytes, in hex: equal digests, equal instructions."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class JobFacts:
    """One job.

    Attributes:
        number: among all that the trace starts, from 0.
        action: index of the action that starts it.
        marker: number in the marker before it, one that no other job has; None: there is none.
        name: what the recording calls it; "" for nothing.
        kind: as the profile calls it.
        registers: that describe it, as far as the trace wrote them, by name.
        work: how much it is, in words; "" where that is in descriptors.
        named: memory that its registers name.
        codes: what it executes.
        epoch: number of the mappings that it runs with.
    """

    number: int
    action: int
    marker: int | None
    name: str
    kind: str
    registers: Mapping[str, int]
    work: str
    named: tuple[Named, ...]
    codes: tuple[Code, ...]
    epoch: int


@dataclass(frozen=True)
class Jobs:
    """All jobs of a trace.

    Attributes:
        jobs: in the order in which they are started.
        epochs: the mappings that jobs run with; without a job, those at the end.
        followed: what descriptors in memory say; None where jobs have none, or they cannot be followed.
        not_followed: why they cannot; "" otherwise.
        content: what the trace itself puts into memory, as it is at the end.
    """

    jobs: tuple[JobFacts, ...]
    epochs: tuple[Mappings, ...]
    followed: Followed | None
    not_followed: str
    content: Content = field(repr=False)


def jobs_of(trace: Trace) -> Jobs:
    """Follow a trace's actions.

    Args:
        trace: one whose actions are well-formed (`Trace.parse`).
    """
    return _Follower(trace).follow()


class _Follower:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.state = State(trace)
        self.content = Content(trace)
        self.codes: dict[tuple[int, int, bytes], Code] = {}
        self.jobs: list[JobFacts] = []
        self.epochs: list[Mappings] = []
        self.marker: int | None = None
        self.name = ""
        self.remapped = True
        self.followed, self.not_followed = self._followed()

    def follow(self) -> Jobs:
        """All actions, one after the other."""
        names = names_by_action(self.trace)
        for index, row in enumerate(actions_of(self.trace.actions)):
            if row.op == Op.JOB:
                self.marker, self.name = row.number, names.get(index, "")
            if (job := self.state.starts.of(row)) is not None:
                before = self.state.registers.get(row.register, 0)
                if row.op == Op.REG_WRITE:  # the register that starts it is part of the description
                    self.state.registers[row.register] = before & ~row.mask | row.value & row.mask
                self._take(index, job.kind, job.start.name)
            self.state.apply(row)
            self.content.apply(row)
            self.remapped |= row.op in (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM)
        if not self.epochs:
            self.epochs.append(dict(self.state.mappings))
        return Jobs(tuple(self.jobs), tuple(self.epochs), self.followed, self.not_followed, self.content)

    def _followed(self) -> tuple[Followed | None, str]:
        follow = self.state.family.follow
        try:
            return (follow(self.trace) if follow else None), ""
        except NotFollowedError as error:
            return None, str(error)

    def _take(self, index: int, kind: str, start: str) -> None:
        if self.remapped:
            self.epochs.append(dict(self.state.mappings))
            self.remapped = False
        state, family = self.state, self.state.family
        block = start.partition(".")[0]
        registers = {
            name: state.registers[register.index]
            for name, register in state.profile.registers.items()
            if name.startswith(f"{block}.") and family.describes_job.fullmatch(name)
            if register.index in state.registers
        }
        described = family.job_addresses is not None and kind == "compute"
        named = tuple(family.job_addresses(state.named)) if described and family.job_addresses else ()
        work = family.job_work(state.named) if described and family.job_work else ""
        places = [(0, item.va) for item in named if item.is_code]
        if self.followed is not None:
            places = list(self.followed.code.get(len(self.jobs), ()))
        self.jobs.append(
            JobFacts(
                len(self.jobs),
                index,
                self.marker,
                self.name,
                kind,
                registers,
                work,
                named,
                tuple(self._code(space, va) for space, va in places),
                len(self.epochs) - 1,
            )
        )
        self.marker, self.name = None, ""

    def _code(self, space: int, va: int) -> Code:
        def read(at: int, size: int) -> bytes | None:
            return self.content.read(self.state, space, at, size)

        reader = self.state.family.read_shader
        if reader is None:
            return self._region(space, va)
        try:
            shader = reader(self.state.profile, read, va, self.state.named)
        except BuildError as error:
            first = read(va, 8)
            shader = Shader(first or b"", (), f"not shown: {str(error).splitlines()[0]}")
        return self._same(Code(space, va, shader.code, shader.lines, shader.flaw))

    def _region(self, space: int, va: int) -> Code:
        """Code whose end nothing here can tell: what follows in executable pages up to the next shader, without
        zeros at the end."""
        assert self.followed is not None
        end = self.followed.code_after(va) or self.state.trace.va_bytes
        data, at, flags = b"", va, None
        while (
            at < end and (mapping := self.state.mapping(space, at)) is not None and flags in (None, mapping.flags)
        ):
            flags, size = mapping.flags, min(PAGE_BYTES - at % PAGE_BYTES, end - at)
            data += self.content.read(self.state, space, at, size) or bytes(size)
            at += size
        code = data.rstrip(b"\0")
        flaw = "there is no disassembler for this GPU; it ends where the next shader begins, or before"
        return self._same(Code(space, va, code, (), flaw))

    def _same(self, code: Code) -> Code:
        """One object for the same code at the same address."""
        return self.codes.setdefault((code.space, code.va, code.data), code)


class Content:
    """What memory holds by the trace alone: the image, and what uploads and clears made of it."""

    def __init__(self, trace: Trace) -> None:
        self.image: NDArray[np.uint8] = np.frombuffer(trace.image, np.uint8)
        self.frames: dict[int, NDArray[np.uint8]] = {}

    def apply(self, row: Action) -> None:
        """Let an action happen."""
        if row.op not in (Op.UPLOAD, Op.CLEAR):
            return
        data = self.image[row.source : row.source + row.bytes] if row.op == Op.UPLOAD else None
        for frame, inside, part in pieces(row.target, row.bytes):
            if frame not in self.frames:
                self.frames[frame] = self._initial(frame)
            self.frames[frame][inside] = 0 if data is None else data[part]

    def read(self, state: State, space: int, va: int, size: int) -> bytes | None:
        """Bytes at a GPU address; None: some are not mapped, or not the trace's."""
        found = []
        for page, inside, _ in pieces(va, size):
            mapping = state.mappings.get((space, page))
            content = None if mapping is None else self.page(mapping.frame)
            if content is None:
                return None
            found.append(content[inside].tobytes())
        return b"".join(found)

    def page(self, frame: int) -> NDArray[np.uint8] | None:
        """A page of the carve-out; None: the trace puts nothing there."""
        if frame in self.frames:
            return self.frames[frame]
        return self._initial(frame) if frame * PAGE_BYTES < len(self.image) else None

    def _initial(self, frame: int) -> NDArray[np.uint8]:
        page = np.zeros(PAGE_BYTES, np.uint8)
        image = self.image[frame * PAGE_BYTES : (frame + 1) * PAGE_BYTES]
        page[: len(image)] = image
        return page
