# SPDX-License-Identifier: BSD-2-Clause
"""Passes over memory: what must travel, where it lies."""

from __future__ import annotations

import numpy as np

from host_tools.accesses.slot_places import bytes_of
from host_tools.families.accesses import NotFollowedError
from host_tools.families.family import family_of
from host_tools.model.alike import Alike
from host_tools.model.memory import Memory
from host_tools.passes.parameters import constant, forget_inputs
from host_tools.passes.program import Program
from host_tools.passes.registry import memory_pass, program_pass
from trace_format import operators
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

    Found by replaying on the virtual GPU. Where other data could lead to other accesses, pages that a job touches
    keep all their bytes; jobs that are chains in memory are then taken to access all that they can reach.
    """
    seen = program.seen()
    memory = program.memory
    needed_slots = memory.slot_frames(*SlotKind)
    mappings = memory.mappings
    touched = mappings.frames_that(lambda frame: seen.touched(frame) or frame in needed_slots)
    kept = touched.copy()
    for i in range(1, GUARD_PAGES + 1):
        kept |= np.isin(mappings.keys, mappings.keys[touched] + i)
    copied_out = bytes_of(memory, (slot for slot in program.slots if slot.kind == SlotKind.OUTPUT))
    by_operators = bytes_of(memory, operators.read(program.actions, program.slots))  # before a job, perhaps
    memory.mappings = mappings.where(kept)
    memory.cpu_writes = [item for item in memory.cpu_writes if not memory.frames.isdisjoint(item.frames)]
    with_values = SlotKind.INPUT, SlotKind.PARAMETER, SlotKind.INTERNAL
    keep = memory.cpu_written_frames() | memory.slot_frames(*with_values, bound=True)
    for frame, page in memory.pages.items():
        if frame not in keep and not page.is_blank:
            needed = seen.needed(frame)
            if frame in copied_out:
                needed = needed | copied_out[frame] & ~seen.overwritten(frame)
            if frame in by_operators:
                needed = needed | by_operators[frame]
            page.drop(~needed)
    program.commit()


@memory_pass("read-only")
def map_read_only(program: Program) -> None:
    """Map pages that no job writes without write permission, so that the GPU cannot.

    Seen by replaying on the virtual GPU. All pages of state that jobs change in place stay writable, because the
    next replay may write at another place. Where page tables can forbid execution, executable pages lose write
    permission always: a device executes only what the GPU cannot write to.
    """
    try:
        seen = program.seen()
    except NotFollowedError:  # it is not known what jobs write
        seen = None
    memory, mappings = program.memory, program.memory.mappings
    in_place = memory.frames_of(program.changed_in_place)
    keep = np.ones(len(mappings), np.bool_)
    if seen:
        keep = mappings.frames_that(lambda frame: seen.written(frame) or frame in in_place)
    if program.profile.forbids_execution:
        keep &= mappings.flags & MAP_EXECUTE == 0
    memory.mappings = mappings.with_(flags=np.where(keep, mappings.flags, mappings.flags & ~MAP_WRITE))
    program.commit()


@memory_pass("recorded-inputs")
def drop_recorded_inputs(program: Program) -> None:
    """Leave out the values that inputs had when they were recorded: every replay is given its own."""
    forget_inputs(program)


@memory_pass("duplicate-pages")
def share_duplicate_pages(program: Program) -> None:
    """Keep pages of equal content once, zero pages among them, where nothing ever writes them."""
    memory = program.memory
    fixed = memory.frames - memory.written_frames()
    alike = Alike()
    target = {frame: alike.first([memory.pages[frame].content.data], frame) for frame in sorted(fixed)}
    frames = [target.get(frame, frame) for frame in memory.mappings.frames.tolist()]
    memory.mappings = memory.mappings.with_(frames=np.array(frames, np.int64))
    for frame, kept in target.items():
        if frame != kept:
            memory.pages.pop(frame)
    program.commit()


@memory_pass("relocate")
def relocate(program: Program) -> None:
    """Move all memory into one carve-out: pages that nothing writes are used where the image has them.

    Where page tables have blocks, the rest keeps its order and its place in a block.
    """
    moved(program.memory)
    fit(program)


def fit(program: Program) -> None:
    """The carve-out ends where memory does."""
    program.commit((max(program.memory.frames, default=0) + 1) * PAGE_BYTES)


def moved(memory: Memory) -> int:
    """Do as `relocate` says; returns the size of the image, in pages."""
    written = memory.written_frames()
    mappings = memory.mappings
    order = dict(
        zip(mappings.frames[::-1].tolist(), mappings.pages[::-1].tolist(), strict=True)
    )  # the first counts
    fixed = sorted(memory.frames - written, key=lambda frame: order[frame])
    working = sorted(memory.frames & written, key=lambda frame: order[frame])
    if len(working) < np.count_nonzero(mappings.frames_that(written.__contains__)):
        working.sort()  # some share pages: they lie as planned
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
    places = place(image_pages)
    memory.move({frame: frame for frame in target.values()} | {guess[frame]: places[frame] for frame in working})
    return image_pages


@memory_pass("trim-address-space")
def trim_address_space(program: Program) -> None:
    """Lower va_bytes to what is mapped, which sizes the page table on the device."""
    top = int(program.memory.mappings.pages.max(initial=0)) + 1
    granule = program.profile.mmu["granule_bytes"]
    program.replace(va_bytes=-(-top * PAGE_BYTES // granule) * granule)
