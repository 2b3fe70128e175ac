# SPDX-License-Identifier: BSD-2-Clause
"""What is particular to a GPU family: one description each, which everything else asks.

A family is a folder of host_tools/gpus, above all rooms that work with traces; its `__init__.py` has the
description as FAMILY, and these rooms ask it by this interface, never by name. What few ask for (`Timing`,
`Speed`, `Sharing`, `Retargeting`) is in the folder's modules of these names (`part_of`). Rooms below find the rest
in the folder by name: `vgpu/` is the C model (host_tools/vgpu/build.py), `guest.toml` says what the recording
machine needs (host_tools/machine/placements.py).
"""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from host_tools.families.accesses import Accesses, Flaw, Followed, Span, nothing
from host_tools.families.checkpoints import Checkpoints
from host_tools.families.conversion import Conversion
from host_tools.families.listing import Listing, Read
from host_tools.families.page_tables import PageTables
from host_tools.families.transfers import Transfers
from host_tools.support.gpu_folders import FOLDERS
from trace_format import profile as profiles
from trace_format.errors import ProfileError
from trace_format.profile import Job, Profile
from trace_format.trace import Trace

Part = TypeVar("Part")
NOTHING = re.compile(r"(?!)")  # matches no name


def every_write(value: int, mask: int) -> bool:
    """`Family.starts` where registers describe a job: each write to the last of them starts it."""
    return True


@dataclass(frozen=True)
class Named:
    """Memory that a job names: what it is, GPU address, bytes that are read there at least, whether it is code."""

    what: str
    va: int
    size: int
    is_code: bool


@dataclass(frozen=True)
class Shader:
    """Code that a job names.

    Attributes:
        code: its bytes, as far as they are known.
        lines: one for each instruction.
        flaw: why the code does not end where it should; "" if it does.
    """

    code: bytes
    lines: tuple[str, ...]
    flaw: str


@dataclass(frozen=True)
class Family:
    """A GPU family.

    Attributes:
        gpus: names of its profiles.
        page_tables: builds page tables for the virtual GPU.
        conversion: makes actions of what the recorder saw of a GPU.
        first_written: register that starts a compute job -> the one that drivers write first of those that
            describe it. The GPU may keep none of them once the job runs.
        starts: whether a write of this value under this mask to a register that starts jobs starts one.
        accesses: what a program's jobs do to memory, given the program (host_tools/passes/program.py). Raises
            NotFollowedError.
        spans: from which job to which pages of working memory are in use, given the program: frame -> jobs; those
            that are not in it are in use always. None: it is not known of any. Raises NotFollowedError.
        follow: what descriptors in memory say of a trace's jobs; None: there are none, registers describe a job.
            Raises NotFollowedError.
        check: what `lint` finds in a trace besides what registers and actions say, as rule and text.
        queues: a job may be started while another runs, and waits for its end.
        frames_are_buffers: frames that lie together were allocated together, and stay so until a pass moves them.
        block_pages: pages that one entry above the last level of page tables maps; 1: there are no such entries.
        tlb_only_flushes: whether the profile's `mmu.flush` touches the TLB only, so that flushes between jobs may
            go where mappings do not change; otherwise the same commands flush caches.
        cache_commands: names of registers that flush caches when they are written.
        cache_states: names of registers that show when such a flush is done.
        list_registers: names of registers that only describe bin and render lists.
        fault_clears: names of registers that clear faults; a pass takes the bits out that no trace may write.
        job_addresses: what a job names that is started now, given what has been written to a register; None where
            jobs are chains of descriptors.
        job_work: how much a job has to do, in words, given the same.
        describes_job: names of registers that describe a job.
        read_shader: the shader at an address, given the GPU, what reads memory (None: not mapped, or not known)
            and what has been written to a register; None where nothing here can tell instructions apart.
        list_job: what a job says that is started now, given the GPU, how it is started, what has been written to a
            register (0: not known) and a reader of memory; None: nothing is said of its jobs.
        transfers: how lists copy and fill memory, and how compute jobs do; None: lists do not.
        checkpoints: where replays can stop and go on after a reset; None: nothing is known of that.
        passes: passes that are for its GPUs only (host_tools/passes/registry.py), by the name of the pass of all
            GPUs after which they run, in their order.
    """

    gpus: tuple[str, ...]
    page_tables: type[PageTables]
    conversion: Callable[[Profile], Conversion]
    first_written: Mapping[str, str]
    starts: Callable[[int, int], bool]
    accesses: Callable[[Any], Accesses]
    spans: Callable[[Any], Mapping[int, Span] | None]
    block_pages: int
    tlb_only_flushes: bool
    cache_commands: re.Pattern[str]
    cache_states: re.Pattern[str] = NOTHING
    list_registers: re.Pattern[str] = NOTHING
    fault_clears: re.Pattern[str] = NOTHING
    job_addresses: Callable[[Callable[[str], int]], list[Named]] | None = None
    job_work: Callable[[Callable[[str], int]], str] | None = None
    describes_job: re.Pattern[str] = NOTHING
    read_shader: (
        Callable[[Profile, Callable[[int, int], bytes | None], int, Callable[[str], int]], Shader] | None
    ) = None
    list_job: Callable[[Profile, Job, Callable[[str], int], Read], Listing] | None = None
    transfers: Transfers | None = None
    checkpoints: Checkpoints | None = None
    follow: Callable[[Trace], Followed] | None = None
    check: Callable[[Trace], Iterator[Flaw]] = nothing
    queues: bool = False
    frames_are_buffers: bool = False
    passes: Mapping[str, Sequence[Any]] = field(default_factory=dict)


@functools.cache
def _by_folder() -> dict[str, Family]:
    return {path.name: importlib.import_module(f"host_tools.gpus.{path.name}").FAMILY for path in FOLDERS}


def families() -> tuple[Family, ...]:
    """All families."""
    return tuple(_by_folder().values())


def profile_of(gpu: str) -> Profile:
    """The profile of a virtual GPU, whose name may have a variant after a dash; ProfileError: there is none."""
    return profiles.load(gpu.partition("-")[0])


def family_of(gpu: Profile | str) -> Family:
    """The family of a GPU, by its profile or by the name of a profile or virtual GPU; ProfileError: none."""
    return _by_folder()[_folder_of(gpu)]


def part_of(gpu: Profile | str, kind: type[Part]) -> Part | None:
    """What a GPU's family says besides its description, to those who ask for it.

    Args:
        gpu: as `family_of` takes it.
        kind: a class of this room. `Timing` is asked for in the module `timing` of the family's folder, which has
            it as TIMING and is imported only now.

    Returns:
        None if the folder has no such module.
    """
    module = f"host_tools.gpus.{_folder_of(gpu)}.{kind.__name__.lower()}"
    if importlib.util.find_spec(module) is None:
        return None
    part: Part = getattr(importlib.import_module(module), kind.__name__.upper())
    return part


def _folder_of(gpu: Profile | str) -> str:
    name = gpu.name if isinstance(gpu, Profile) else profile_of(gpu).name
    for folder, family in _by_folder().items():
        if name in family.gpus:
            return folder
    raise ProfileError(f"GPU {name} belongs to no family of host_tools/gpus")
