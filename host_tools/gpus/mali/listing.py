# SPDX-License-Identifier: BSD-2-Clause
"""A Mali's job chain for people: headers, payloads and what they point to, field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from host_tools.families.listing import Descriptor, Listing, Read
from host_tools.gpus.mali import descriptors as layouts
from host_tools.gpus.mali.job_manager import (
    CONFIG_SPACE,
    CONTROL_WIDE,
    HEADER_BYTES,
    HEADER_CONTROL,
    HEADER_NEXT,
    VA_MASK,
    JobType,
    job_type,
)
from host_tools.gpus.mali.notation import program
from trace_format.profile import Job, Profile

MAX_JOBS = 0x10000  # a job's index has 16 bits
_DRAW, _DRAW_BYTES, _STATE_BYTES, _STORAGE_BYTES = 64, 128, 64, 32
_INVOCATION, _PARAMETERS = 32, 40


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
            header = self._take("job header", va, HEADER_BYTES, layouts.HEADER)
            jobs += 1
            if header is None:
                return
            if jobs > MAX_JOBS:
                self.found.remarks.append("the chain has no end")
                return
            control = int.from_bytes(header[HEADER_CONTROL : HEADER_CONTROL + 4], "little")
            if not control & CONTROL_WIDE:
                self.found.remarks.append(f"the job at {va:#x} has a descriptor of 32 bits, which is not known")
                return
            self._payload(job_type(control), va)
            va = int.from_bytes(header[HEADER_NEXT : HEADER_NEXT + 8], "little")

    def _payload(self, kind: int, va: int) -> None:
        if kind == JobType.WRITE_VALUE:
            self._take("write value", va + HEADER_BYTES, 24, layouts.WRITE_VALUE)
        elif kind == JobType.CACHE_FLUSH:
            self._take("cache flush", va + HEADER_BYTES, 8, layouts.CACHE_FLUSH)
        elif kind == JobType.COMPUTE:
            self._compute(va)
        elif kind != JobType.NULL:
            self.found.remarks.append(f"the job at {va:#x} is of type {kind}, whose payload is not listed")

    def _compute(self, va: int) -> None:
        invocation = self._take("invocation", va + _INVOCATION, 8, layouts.INVOCATION)
        if invocation is not None:
            self.found.descriptors.append(
                Descriptor("dispatch", va + _INVOCATION, 8, layouts.workgroups(invocation))
            )
        self._take("parameters", va + _PARAMETERS, 24, layouts.PARAMETERS)
        draw = self._take("draw", va + _DRAW, _DRAW_BYTES, layouts.DRAW)
        if draw is None:
            return
        pointers = {
            name: int(str(value), 16)
            for name, value in layouts.fields(layouts.DRAW, draw).items()
            if str(value).startswith("0x")
        }
        state = self._take("renderer state", pointers["state"] & VA_MASK & ~0xF, _STATE_BYTES, layouts.STATE)
        if state is not None:
            self._state(state, pointers)
        if pointers["thread storage"]:
            self._take("local storage", pointers["thread storage"] & VA_MASK, _STORAGE_BYTES, layouts.STORAGE)

    def _state(self, state: bytes, pointers: Mapping[str, int]) -> None:
        values = layouts.fields(layouts.STATE, state)
        for index in range(int(values["uniform buffer count"])):
            at = (pointers["uniform buffers"] & VA_MASK) + 8 * index
            self._take(f"uniform buffer {index}", at, 8, layouts.UNIFORM_BUFFER)
        if push := int(values["uniform count"]):
            self.found.data.append(("push uniforms", pointers["push uniforms"] & VA_MASK, 8 * push))
        code = int(str(values["shader"]), 16) & VA_MASK & ~0xF
        clauses, flaw = program(lambda va, size: self.read(self.found.space, va, size), code)
        self.found.code += clauses
        if flaw:
            self.found.remarks.append(f"code at {code:#x}: {flaw}")

    def _take(self, what: str, va: int, size: int, layout: Mapping[str, layouts.Field]) -> bytes | None:
        """The bytes of a descriptor, which is noted; None: they are not mapped."""
        data = self.read(self.found.space, va, size)
        if data is None:
            self.found.remarks.append(f"{what} at {va:#x} is not mapped")
        else:
            self.found.descriptors.append(Descriptor(what, va, size, layouts.fields(layout, data)))
        return data
