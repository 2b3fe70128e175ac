# SPDX-License-Identifier: BSD-2-Clause
"""Passes over memory: what must travel, where it lies."""

from __future__ import annotations

from host_tools.gpus.family import family_of
from host_tools.model import planning
from host_tools.model.frames import Mapping
from host_tools.model.job_chains import Reach, reach
from host_tools.model.memory import BLOCK_PAGES, Memory
from host_tools.model.observe import Observation
from host_tools.model.program import Program
from host_tools.passes.parameters import constant
from host_tools.passes.registry import memory_pass, program_pass
from trace_format.actions import MAP_EXECUTE, MAP_WRITE
from trace_format.schema import PAGE_BYTES, SlotKind

GUARD_PAGES = 1  # hardware fetches ahead of what it executes: the page after one that is used stays mapped


@program_pass("constants")
def make_parameters_constant(program: Program) -> None:
    """Drop the slots of parameters that have a value, so that weights are constant memory."""
    constant(program)


@memory_pass("dead-memory")
def drop_dead_memory(program: Program) -> None:
    """Drop what no job reads: pages no job touches, and initial bytes that are overwritten or never read.

    Found by replaying on the virtual GPU with several inputs; where accesses depend on the data, pages that a
    job touches keep all their bytes. Where jobs are chains in memory, by what the chains can reach.
    """
    memory = program.memory
    chained = family_of(program.profile).has_job_manager
    seen: Reach | Observation = reach(memory) if chained else program.observe()
    needed_slots = memory.slot_frames(*SlotKind)
    touched = {key for key, m in memory.mappings.items() if seen.touched(m.frame) or m.frame in needed_slots}
    kept = touched | {(space, page + i) for space, page in touched for i in range(1, GUARD_PAGES + 1)}
    memory.mappings = {key: m for key, m in memory.mappings.items() if key in kept}
    memory.cpu_writes = [item for item in memory.cpu_writes if not memory.frames.isdisjoint(item.frames)]
    keep = memory.cpu_written_frames() | memory.slot_frames(SlotKind.INPUT, SlotKind.PARAMETER, bound=True)
    for frame, page in memory.pages.items():
        if frame not in keep and not page.is_blank:
            page.drop(~seen.needed(frame))
    program.commit()


@memory_pass("read-only")
def map_read_only(program: Program) -> None:
    """Map pages that no job writes without write permission, so that the GPU cannot.

    Seen by replaying on the virtual GPU. For GPUs whose shaders it does not execute, these are the executable
    pages: a device executes only what the GPU cannot write to.
    """
    memory = program.memory
    if family_of(program.profile).has_job_manager:  # it is not known which pages shaders write
        memory.mappings = {
            key: Mapping(m.frame, m.flags & ~MAP_WRITE) if m.flags & MAP_EXECUTE else m
            for key, m in memory.mappings.items()
        }
    else:
        seen = program.observe()
        writable = {m.frame for m in memory.mappings.values() if seen.written(m.frame)}
        if not seen.depends_on_data:
            memory.mappings = {
                key: m if m.frame in writable else Mapping(m.frame, m.flags & ~MAP_WRITE)
                for key, m in memory.mappings.items()
            }
    program.commit()


@memory_pass("duplicate-pages")
def share_duplicate_pages(program: Program) -> None:
    """Keep pages of equal content once, zero pages among them, where nothing ever writes them."""
    memory = program.memory
    fixed = memory.frames - memory.written_frames()
    home: dict[bytes, int] = {}
    target = {}
    for frame in sorted(fixed):
        target[frame] = home.setdefault(memory.pages[frame].content.tobytes(), frame)
    memory.mappings = {key: Mapping(target.get(m.frame, m.frame), m.flags) for key, m in memory.mappings.items()}
    for frame, kept in target.items():
        if frame != kept:
            memory.pages.pop(frame)
    program.commit()


@memory_pass("plan-memory")
def plan_memory(program: Program) -> None:
    """Let regions that job chains never use at the same time share pages; place large ones for 2 MiB blocks.

    Needs job chains in memory; other traces are left as they are, and those in which regions share pages already.
    """
    memory = program.memory
    working = memory.frames & memory.written_frames()
    mapped = sum(m.frame in working for m in memory.mappings.values())
    if not family_of(program.profile).has_job_manager or mapped > len(working):
        program.commit()
        return
    target = {frame: frame for frame in memory.in_image()}
    first = -(-program.sizes().image_bytes // PAGE_BYTES)
    for frame in sorted(memory.frames):
        if frame not in working and frame not in target:
            target[frame] = first
            first += 1
    image_pages = _relocate(memory.copy())  # planned memory will follow the image of that size
    placement = planning.place(
        planning.items(memory, reach(memory), working), first + (image_pages - first) % BLOCK_PAGES
    )
    memory.move(target | planning.frames_of(placement))
    _commit(program)


@memory_pass("relocate")
def relocate(program: Program) -> None:
    """Move all memory into one carve-out: pages that nothing writes are used where the image has them.

    Where page tables have blocks, the rest keeps its order and its place in a block.
    """
    _relocate(program.memory)
    _commit(program)


def _commit(program: Program) -> None:
    """The carve-out ends where memory does."""
    program.commit((max(program.memory.frames, default=0) + 1) * PAGE_BYTES)


def _relocate(memory: Memory) -> int:
    """See `relocate`; returns the size of the image, in pages."""
    written = memory.written_frames()
    order = {frame: va for (_, va), m in sorted(memory.mappings.items(), reverse=True) for frame in [m.frame]}
    fixed = sorted(memory.frames - written, key=lambda frame: order[frame])
    working = sorted(memory.frames & written, key=lambda frame: order[frame])
    memory.pages.update({frame: memory.pages[frame] for frame in fixed})
    for frame, page in memory.pages.items():
        page.in_image = frame not in written
    granule = family_of(memory.trace.profile).block_pages if working else 1
    low = min(working, default=0)

    def place(base: int) -> dict[int, int]:
        begin = base + (low - base) % granule
        return {frame: begin + (frame - low if granule > 1 else i) for i, frame in enumerate(working)}

    target = {frame: index for index, frame in enumerate(fixed)}
    guess = place(len(fixed))  # the image is larger, by what is uploaded from it
    memory.move(target | guess)
    image_pages = memory.packing().image_pages
    moved = place(image_pages)
    memory.move({frame: frame for frame in target.values()} | {guess[frame]: moved[frame] for frame in working})
    return image_pages


@memory_pass("trim-address-space")
def trim_address_space(program: Program) -> None:
    """Lower va_bytes to what is mapped, which sizes the page table on the device."""
    top = max((va for _, va in program.memory.mappings), default=0) + 1
    granule = program.profile.mmu["granule_bytes"]
    program.replace(va_bytes=-(-top * PAGE_BYTES // granule) * granule)
