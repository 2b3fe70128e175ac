# SPDX-License-Identifier: BSD-2-Clause
"""The virtual GPU from Python: a thin class over the C library, whose declarations are read from vgpu.h itself."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import cffi
import numpy as np
import numpy.typing as npt

from host_tools.vgpu import build
from trace_format.emit import c_memory
from trace_format.errors import GramophoneError
from trace_format.schema import COUNTERS

PAGE_BYTES = 4096
_HEADER = Path(__file__).with_name("vgpu.h")


def header_constants(header: str) -> dict[str, int]:
    """Values of the `#define NAME 1u` lines of a C header."""
    return {m[1]: int(m[2], 0) for m in re.finditer(r"^#define (\w+) (\d\w*?)u\b", header, re.MULTILINE)}


_CONSTANTS = header_constants(_HEADER.read_text(encoding="utf-8"))
ACCESS_READ_FIRST = _CONSTANTS["VGPU_ACCESS_READ_FIRST"]
ACCESS_READ = _CONSTANTS["VGPU_ACCESS_READ"]
ACCESS_WRITTEN = _CONSTANTS["VGPU_ACCESS_WRITTEN"]
ACCESS_COMMAND = _CONSTANTS["VGPU_ACCESS_COMMAND"]


class VgpuError(GramophoneError):
    """The virtual GPU met something that it does not model; the message says what and where."""


@dataclasses.dataclass(frozen=True)
class Counters:
    """What the GPU has done since its creation; fields as in the schema's `vgpu_counters`."""

    reads: int
    writes: int
    interrupts: int
    jobs: int
    list_jobs: int
    instructions: int
    bytes_read: int
    bytes_written: int
    faults: int
    resets: int


@dataclasses.dataclass(frozen=True)
class Dispatch:
    """What one compute dispatch did that takes time; fields as in vgpu.h's `struct vgpu_dispatch`."""

    instructions: int
    clauses: int
    loads: int
    stores: int
    loaded_words: int
    stored_words: int
    loaded_lines: int
    stored_lines: int
    first_misses: int
    second_misses: int
    stored_misses: int
    spills: int
    workgroups: int
    threads: int
    groups: int
    registers: int
    resident: int


@dataclasses.dataclass(frozen=True)
class Decisions:
    """Labels of what jobs have read, and of what decides: addresses; branches, the code or which lanes run; those
    of code, uniforms and lists themselves.

    Attributes:
        branches: those that labels decide: GPU address of the instruction, whether it was taken.
    """

    read: int
    addresses: int
    control: int
    commands: int
    branches: frozenset[tuple[int, bool]]


@dataclasses.dataclass(frozen=True)
class PageRun:
    """A run of pages contiguous in GPU and physical addresses: a row of vgpu_walk."""

    va: int
    pa: int
    bytes: int
    flags: int


def c_declarations(header: str) -> str:
    """The declarations of a C header as cffi takes them: no preprocessor lines, no C++ branch."""
    header = re.sub(r"#ifdef __cplusplus.*?#endif", "", header, flags=re.DOTALL)
    return re.sub(r"^#.*$", "", header, flags=re.MULTILINE)


DECLARATIONS = c_memory.declaration(COUNTERS, "vgpu_counters") + c_declarations(
    _HEADER.read_text(encoding="utf-8")
)
_ffi = cffi.FFI()
_ffi.cdef(DECLARATIONS)


@functools.cache
def _load(path: Path) -> Any:
    return _ffi.dlopen(str(path))


def load() -> Any:
    """The C library, compiled if need be; BuildError if it cannot be."""
    return _load(build.library())


def executes_shaders(gpu: str) -> bool:
    """Whether the virtual GPU of that name computes what its jobs compute."""
    return bool(load().vgpu_executes_shaders(gpu.encode()))


def follows_data(gpu: str) -> bool:
    """Whether the virtual GPU of that name can follow where data comes from (`VirtualGpu.follow`)."""
    return bool(load().vgpu_follows_data(gpu.encode()))


class VirtualGpu:
    """A virtual GPU over memory of this process.

    Args:
        gpu: name of the virtual GPU: that of its profile, with a variant after a dash.
        memory: physical base address -> memory there: any writable buffer that starts at a multiple of 4096
            in this process (an mmap, or a NumPy uint8 array over one).
        latency_ns: from a job's start to its completion, and of every busy bit; see advance().
        threads: worker threads; 0: one a core.
        track_access: keep the access map.
        hang_job, fault_job: test aids: the compute job (from 1) that never completes, or faults.
        job_limit: what a compute job may execute before it counts as hung (vgpu.h); 0: as long as on the GPU.
        meter: keep what each dispatch does that takes time (`dispatches`); not with track_access.
        on_interrupt: called with (line, level) at each change.
        schedule: called with a delay in ns after which advance() is to be called; without it the owner polls.
        library: shared library to use instead of the usual one.

    Raises:
        VgpuError: unknown GPU name.
        ValueError: unaligned memory.
    """

    def __init__(
        self,
        gpu: str,
        memory: Mapping[int, Any] | None = None,
        *,
        latency_ns: int = 0,
        threads: int = 0,
        track_access: bool = False,
        hang_job: int = 0,
        fault_job: int = 0,
        job_limit: int = 0,
        meter: bool = False,
        on_interrupt: Callable[[int, bool], None] | None = None,
        schedule: Callable[[int], None] | None = None,
        library: Path | None = None,
    ) -> None:
        self._gpu = _ffi.NULL
        self._lib = _load(library or build.library())
        self.memory = dict(memory or {})
        self._regions = sorted(
            (base, _ffi.from_buffer("uint8_t[]", buffer, require_writable=True))
            for base, buffer in self.memory.items()
        )
        for base, region in self._regions:
            if int(_ffi.cast("uintptr_t", region)) % PAGE_BYTES or base % PAGE_BYTES:
                raise ValueError(f"memory at {base:#x} does not start at a multiple of {PAGE_BYTES}")
        self._memory = _ffi.callback("uint8_t *(void *, uint64_t, uint64_t *)", self._find_memory)
        self._interrupt = _ffi.NULL
        if on_interrupt is not None:
            self._interrupt = _ffi.callback(
                "void(void *, unsigned, bool)", lambda _ctx, line, level: on_interrupt(line, level)
            )
        self._schedule = _ffi.NULL
        if schedule is not None:
            self._schedule = _ffi.callback("void(void *, uint64_t)", lambda _ctx, delay: schedule(delay))
        host = _ffi.new("struct vgpu_host *", (_ffi.NULL, self._memory, self._interrupt, self._schedule))
        chosen = (latency_ns, threads, track_access, hang_job, fault_job, job_limit, meter)
        options = _ffi.new("struct vgpu_options *", chosen)
        error = _ffi.new("const char **")
        self._gpu = self._lib.vgpu_create(gpu.encode(), host, options, error)
        if self._gpu == _ffi.NULL:
            raise VgpuError(f"{gpu}: {_ffi.string(error[0]).decode()}")

    def _find_memory(self, _ctx: Any, pa: int, length: Any) -> Any:
        for base, region in self._regions:
            if base <= pa < base + len(region):
                length[0] = base + len(region) - pa
                return region + (pa - base)
        return _ffi.NULL

    def close(self) -> None:
        """Frees the GPU; it must not be used afterwards."""
        self._lib.vgpu_destroy(self._gpu)
        self._gpu = _ffi.NULL
        self._regions = []  # its callbacks refer to this object, which would keep the memory until a collection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if self._gpu != _ffi.NULL:
            self.close()

    @property
    def error(self) -> str | None:
        """Why the GPU stopped, if it has."""
        text = self._lib.vgpu_error(self._gpu)
        return None if text == _ffi.NULL else _ffi.string(text).decode(errors="replace")

    def _check(self) -> None:
        error = self.error
        if error is not None:
            raise VgpuError(error)

    def read32(self, offset: int) -> int:
        """Reads a register. Raises VgpuError when the GPU stops, or has stopped."""
        value = int(self._lib.vgpu_read32(self._gpu, offset))
        self._check()
        return value

    def write32(self, offset: int, value: int) -> None:
        """Writes a register; a job that this starts has run on return. Raises VgpuError as read32."""
        self._lib.vgpu_write32(self._gpu, offset, value)
        self._check()

    def advance(self, now_ns: int) -> None:
        """Completes what is due at virtual time `now_ns`. Raises VgpuError as read32."""
        self._lib.vgpu_advance(self._gpu, now_ns)
        self._check()

    def interrupt_level(self, line: int = 0) -> bool:
        """Level of an interrupt line."""
        return bool(self._lib.vgpu_interrupt_level(self._gpu, line))

    @property
    def c_interface(self) -> tuple[Any, Any, Any, Any, Any]:
        """For C code that drives the GPU itself: the handle, then vgpu_read32, vgpu_write32, vgpu_interrupt_level
        and vgpu_advance as pointers."""
        names = ("vgpu_read32", "vgpu_write32", "vgpu_interrupt_level", "vgpu_advance")
        return (self._gpu, *(_ffi.addressof(self._lib, name) for name in names))

    @property
    def window_bytes(self) -> int:
        """Size of the register window."""
        return int(self._lib.vgpu_window_bytes(self._gpu))

    @property
    def interrupt_lines(self) -> int:
        """Number of interrupt lines."""
        return int(self._lib.vgpu_interrupt_lines(self._gpu))

    def counters(self) -> Counters:
        """The counters as of now."""
        raw = _ffi.new("struct vgpu_counters *")
        self._lib.vgpu_counters_get(self._gpu, raw)
        return Counters(*(int(getattr(raw, field.name)) for field in dataclasses.fields(Counters)))

    def dispatches(self) -> list[Dispatch]:
        """What each dispatch did since creation or the last call, the earliest first (meter only)."""
        count = self._lib.vgpu_dispatches(self._gpu, _ffi.NULL, 0)
        rows = _ffi.new("struct vgpu_dispatch[]", count)
        self._lib.vgpu_dispatches(self._gpu, rows, count)
        self._lib.vgpu_dispatches_clear(self._gpu)
        names = [field.name for field in dataclasses.fields(Dispatch)]
        return [Dispatch(*(int(getattr(row, name)) for name in names)) for row in rows]

    def access_map(self) -> dict[int, npt.NDArray[np.uint8]]:
        """What jobs accessed since creation or clear_access (track_access only).

        Returns:
            Physical page address -> uint8[4096] of ACCESS_* flags, ascending. Equal arrays are one, read-only:
            most pages are read or written as a whole.
        """
        count = self._lib.vgpu_access_pages(self._gpu, _ffi.NULL, 0)
        pages = _ffi.new("uint64_t[]", count)
        self._lib.vgpu_access_pages(self._gpu, pages, count)
        found: dict[int, npt.NDArray[np.uint8]] = {}
        kept: dict[bytes, npt.NDArray[np.uint8]] = {}
        flags = _ffi.new("uint8_t[]", PAGE_BYTES)
        for page in pages:
            self._lib.vgpu_access(self._gpu, page, flags)
            content = bytes(_ffi.buffer(flags))
            if content not in kept:
                kept[content] = np.frombuffer(content, np.uint8)
            found[int(page)] = kept[content]
        return found

    def clear_access(self) -> None:
        """Empties the access map; `access_varies` is about what comes after this."""
        self._lib.vgpu_access_clear(self._gpu)

    @property
    def access_varies(self) -> bool:
        """Whether shaders have run that might access other bytes if data were other (vgpu.h)."""
        return bool(self._lib.vgpu_access_varies(self._gpu))

    def follow(self, labels: npt.NDArray[np.uint32], *, implicit: int, registers: int) -> None:
        """Follows where data comes from (vgpu.h: struct vgpu_flow).

        Args:
            labels: one a byte of physical memory, from address 0 on; jobs change them.
            implicit: labels that count where they decide an address, a lane or a branch.
            registers: label of registers that a thread reads without having written them.

        Raises:
            VgpuError: the GPU cannot.
        """
        self._labels = _ffi.from_buffer("uint32_t[]", labels, require_writable=True)
        self._branches: set[tuple[int, bool]] = set()
        add = self._branches.add
        self._branch = _ffi.callback("void(void *, uint32_t, bool)", lambda _ctx, va, taken: add((va, taken)))
        self._flow = _ffi.new("struct vgpu_flow *", (self._labels, labels.size, implicit, registers))
        self._flow.branch = self._branch
        if not self._lib.vgpu_follow(self._gpu, self._flow):
            raise VgpuError("the virtual GPU of this kind does not follow data")

    def decisions(self) -> Decisions:
        """What jobs have read and let decide, since `follow` or the last call."""
        flow = self._flow
        found = Decisions(
            int(flow.read),
            int(flow.addresses),
            int(flow.control),
            int(flow.commands),
            frozenset(self._branches),
        )
        flow.read = flow.addresses = flow.control = flow.commands = 0
        self._branches.clear()
        return found

    def mappings(self) -> list[PageRun]:
        """The GPU's address space as its latest job saw it, in ascending order."""
        rows: list[PageRun] = []

        @_ffi.callback("void(void *, uint64_t, uint64_t, uint64_t, uint32_t)")  # type: ignore[untyped-decorator]
        def visit(_ctx: Any, va: int, pa: int, size: int, flags: int) -> None:
            rows.append(PageRun(va, pa, size, flags))

        self._lib.vgpu_walk(self._gpu, visit, _ffi.NULL)
        return rows
