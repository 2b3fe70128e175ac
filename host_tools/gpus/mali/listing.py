# SPDX-License-Identifier: BSD-2-Clause
"""A Mali's job chain for people: headers, payloads and what they point to, field by field."""

from __future__ import annotations

from collections.abc import Callable

from host_tools.families.listing import Descriptor, Listing, Read
from host_tools.gpus.mali.descriptors import (
    DRAW,
    HEADER,
    INVOCATION,
    JOBS,
    MAX_CHAIN,
    PUSH_BYTES,
    STATE,
    STORAGE,
    UNIFORM_BUFFER,
    workgroups,
)
from host_tools.gpus.mali.descriptors import Descriptor as Layout
from host_tools.gpus.mali.job_manager import CONFIG_SPACE
from host_tools.gpus.mali.notation import program
from trace_format.profile import Job, Profile


def list_job(gpu: Profile, job: Job, register: Callable[[str], int], read: Read) -> Listing:
    """The chain that is started now; `register`: what has been written to one, 0 where that is not known."""
    slot = job.start.name.partition(".")[0]
    head = register(f"{slot}.HEAD_NEXT_LO") | register(f"{slot}.HEAD_NEXT_HI") << 32
    space = register(f"{slot}.CONFIG_NEXT") & CONFIG_SPACE
    chain = _Chain(Listing(f"chain on {slot}", space), read)
    chain.walk(head)
    return chain.found


class _Chain:
    def __init__(self, found: Listing, read: Read) -> None:
        self.found, self.read = found, read

    def walk(self, va: int) -> None:
        jobs = 0
        while va:
            header = self._take(HEADER, va)
            jobs += 1
            if header is None:
                return
            if jobs > MAX_CHAIN:
                self.found.remarks.append("the chain has no end")
                return
            if not HEADER["is 64b"].number(header):
                self.found.remarks.append(f"the job at {va:#x} has a descriptor of 32 bits, which is not known")
                return
            self._job(HEADER["type"].number(header), va)
            va = HEADER["next"].number(header)

    def _job(self, kind: int, va: int) -> None:
        """What follows a job's header."""
        if kind not in JOBS:
            self.found.remarks.append(f"the job at {va:#x} is of type {kind}, whose payload is not listed")
            return
        for part in list(JOBS[kind].parts.values())[1:]:
            data = self._take(part.descriptor, va + part.offset)
            if data is None:
                continue
            if part.descriptor is INVOCATION:
                self.found.descriptors.append(
                    Descriptor("dispatch", va + part.offset, part.descriptor.size, workgroups(data))
                )
            elif part.descriptor is DRAW:
                self._draw(data)

    def _draw(self, draw: bytes) -> None:
        state = self._take(STATE, DRAW["state"].address(draw))
        if state is not None:
            self._state(state, draw)
        if DRAW["thread storage"].number(draw):
            self._take(STORAGE, DRAW["thread storage"].address(draw))

    def _state(self, state: bytes, draw: bytes) -> None:
        for index in range(STATE["uniform buffer count"].number(state)):
            at = DRAW["uniform buffers"].address(draw) + UNIFORM_BUFFER.size * index
            self._take(UNIFORM_BUFFER, at, f"uniform buffer {index}")
        if push := STATE["uniform count"].number(state):
            self.found.data.append(("push uniforms", DRAW["push uniforms"].address(draw), PUSH_BYTES * push))
        code = STATE["shader"].address(state)
        clauses, flaw = program(lambda va, size: self.read(self.found.space, va, size), code)
        self.found.code += clauses
        if flaw:
            self.found.remarks.append(f"code at {code:#x}: {flaw}")

    def _take(self, layout: Layout, va: int, what: str = "") -> bytes | None:
        """The bytes of a descriptor, which is noted; None: they are not mapped."""
        what = what or layout.name
        data = self.read(self.found.space, va, layout.size)
        if data is None:
            self.found.remarks.append(f"{what} at {va:#x} is not mapped")
        else:
            self.found.descriptors.append(Descriptor(what, va, layout.size, layout.listed(data)))
        return data
