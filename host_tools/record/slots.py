# SPDX-License-Identifier: BSD-2-Clause
"""Inputs, outputs and parameters of a recording, from the differences between recordings.

Three recordings of one program are compared: two that differ in the inputs, one that differs in the weights.
What the GPU is made to do must be the same in all; memory may differ only where an input or a parameter lies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.noted_accesses import NOTE, computing, noted
from host_tools.accesses.observe import Observation, Watched, judged, watched
from host_tools.accesses.proof import Job, commands_of
from host_tools.accesses.slot_places import parts_in
from host_tools.families.family import part_of
from host_tools.families.streams import Streams
from host_tools.machine.errors import RecordError
from host_tools.model.description import describe_action
from host_tools.model.frames import runs
from host_tools.model.interpreter import interpreter
from host_tools.model.memory import Conflict, Memory
from host_tools.model.remapping import one_frame_each
from host_tools.passes.list_passes import list_jobs
from host_tools.record.copies import Copies, handed_out
from host_tools.record.handed_over import HandedOver, hand_over
from host_tools.record.layouts import WORD, Layouts, in_order
from host_tools.record.tensors import PairedMemory, Placement, RepeatedError, find, joined, pairs_of
from trace_format import operators
from trace_format.actions import ACTION_DTYPE, Action, Columns, Op, action
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

Tensors = Mapping[str, NDArray[np.float32]]
Words = dict[int, NDArray[np.uint32]]
Needed = dict[int, list[tuple[int, int]]]  # GPU page -> runs of words in it
MAX_PARAMETERS = 48  # parameter slots; more runs of weights than this are joined
# Memory is compared by GPU address and content: which physical pages the guest finds free is its own business.
# Time is not compared.
_NOT_COMPARED = (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM, Op.UPLOAD, Op.CLEAR, Op.INTERVAL)


@dataclass(frozen=True)
class CpuWork:
    """What the CPU computes between jobs.

    Attributes:
        taken, returned: tensors of two recordings, by blob: those that the CPU takes of the GPU, and gives it.
        operate: makes the trace that computes them.
    """

    taken: tuple[Tensors, Tensors]
    returned: tuple[Tensors, Tensors]
    operate: Callable[[Trace, HandedOver], Trace]


def same_stream(first: Trace, second: Trace, what: str) -> None:
    """Check that two recordings make the GPU do the same, from the first job to the last.

    What is before, the driver's setting up while the program loads its weights, follows the CPU's timing.

    Raises:
        RecordError: names the first action that differs.
    """
    one, two = _stream(first), _stream(second)
    shorter = min(len(one), len(two))
    differs = np.flatnonzero(one[:shorter] != two[:shorter])
    if not len(differs) and len(one) == len(two):
        return
    at = int(differs[0]) if len(differs) else shorter
    says = [describe_action(Action.of(s[at]), first.profile, []) if at < len(s) else "its end" for s in (one, two)]
    raise RecordError(
        f"the job stream depends on the {what}: access {at} is {says[0]} in one recording, {says[1]} in another"
    )


def _stream(trace: Trace) -> NDArray[np.void]:
    jobs = np.flatnonzero(Columns(trace.actions).is_op(Op.JOB))
    head = trace.actions[jobs[0] : jobs[-1] + 2]  # the last job and the write that starts it
    return head[~Columns(head).is_op(*_NOT_COMPARED)]


def with_slots(
    first: Trace,
    second: Callable[[], Trace],
    other_weights: Callable[[], Trace] | None,
    inputs: tuple[Tensors, Tensors],
    outputs: tuple[Tensors, Tensors],
    layouts: Layouts,
    finals: tuple[Words, Words] | None = None,
    work: CpuWork | None = None,
) -> Trace:
    """The first recording, with its slots.

    Args:
        first, second: recordings with the two sets of inputs. Those that are called for are large, and only needed
            one after the other.
        other_weights: recording with the first inputs and other weights; None: nothing is looked for as weights.
        inputs, outputs: the tensors of the two recordings by blob name, float32.
        layouts: how whoever made them lays tensors out (record/layouts.py).
        finals: what the last jobs of the two left in memory; None: what they leave on the virtual GPU, which
            computes as the recorded one if that was virtual, too.
        work: of the CPU between jobs; None: all that depends on the inputs is the GPU's.

    Raises:
        RecordError: an input or output is not found, or memory depends on the inputs in another way.
    """
    first, memory = _settled(first)
    seen = watched(first)
    needed = _needed(memory, judged(first, seen))
    copies = Copies(seen.jobs, memory.mappings)
    other = _settled(second())
    _check_alike((first, other[0]), (memory, other[1]))
    handed = None
    if work is None:
        _check_cpu_writes(memory, other[1])
    else:
        traces, memories = (first, other[0]), (memory, other[1])
        handed = hand_over(traces, memories, seen.jobs, work.taken, work.returned, layouts)
    slots = _tensors(first, memory, needed, other, inputs, outputs, layouts, copies, finals)
    del other
    if other_weights is not None:
        slots += _parameters(first, memory, needed, _settled(other_weights()))
    trace = _add(first, slots)
    if work is not None and handed is not None:
        trace = work.operate(trace, handed)
        memory = Memory.of(trace)
    return _with_note(trace, memory, seen)


def declared(trace: Trace, mark: bytes, slots: Callable[[int], list[Slot]]) -> Trace:
    """A recording with slots that whoever made it declares, in place of looking for them.

    Args:
        trace: the recording.
        mark: what the page begins with that the slots' places are counted from; the CPU has written it.
        slots: makes them of that page's GPU address.

    Raises:
        RecordError: the mark is not found, or more than once.
    """
    trace, memory = _settled(trace)
    return _with_note(_placed(trace, memory, mark, slots), memory, watched(trace))


def placed(trace: Trace, mark: bytes, slots: Callable[[int], list[Slot]]) -> Trace:
    """As `declared`, without a note of what jobs access: for a recording that nobody keeps."""
    trace, memory = _settled(trace)
    return _placed(trace, memory, mark, slots)


def _placed(trace: Trace, memory: Memory, mark: bytes, slots: Callable[[int], list[Slot]]) -> Trace:
    content = np.frombuffer(mark, np.uint8)
    pages = [
        page * PAGE_BYTES
        for (_, page), mapping in memory.mappings.items()
        if mapping.frame in memory.pages
        and np.array_equal(memory.pages[mapping.frame].content[: len(content)], content)
    ]
    if len(pages) != 1:
        raise RecordError(f"the memory of inputs and outputs was found {len(pages)} times in the recording")
    return _add(trace, slots(pages[0]))


def _settled(trace: Trace) -> tuple[Trace, Memory]:
    """The trace as what slots are found in, and its memory: no page is mapped to two places.

    It is where a framework frees memory between jobs, and the driver puts other memory there.
    """
    streams = part_of(trace.gpu, Streams)
    trace = streams.straightened(trace) if streams else trace
    try:
        return trace, Memory.of(trace)
    except Conflict as conflict:
        settled = one_frame_each(trace)
        if settled is None:
            raise RecordError(f"inputs and outputs cannot be followed through memory: {conflict}") from None
        settled = settled.with_(raw=True)
        return settled, Memory.of(settled)


def _with_note(trace: Trace, memory: Memory, seen: Watched) -> Trace:
    """With a note on what its compute jobs access, if that is the same with other inputs.

    Lists that only signal fences are no part of a built trace. Where one writes, there is no note: a job of ours
    does that in the built trace.

    Args:
        trace: with slots.
        memory, seen: of the trace without them.
    """
    computes = computing(memory)
    if computes is None or len(computes) != len(seen.jobs) or any(item.writes for item in list_jobs(trace)):
        return trace
    jobs = [job if is_one else Job({}, False) for job, is_one in zip(seen.jobs, computes, strict=True)]
    given = operators.given(trace.actions, trace.slots)
    first = Watched(jobs, parts_in(memory, commands_of(jobs).keys(), given))
    note = noted(memory, seen.jobs, proved=not first.changes_commands)
    if note is None or judged(trace, first).depends_on_data:
        return trace
    return trace.with_(notes={**trace.notes, NOTE: note})


def _tensors(
    first: Trace,
    memory: Memory,
    needed: Needed,
    other: tuple[Trace, Memory],
    inputs: tuple[Tensors, Tensors],
    outputs: tuple[Tensors, Tensors],
    layouts: Layouts,
    copies: Copies,
    finals: tuple[Words, Words] | None,
) -> list[Slot]:
    """Inputs and outputs, by a recording with other inputs."""
    second, memory2 = other
    paired = PairedMemory(_initial(memory, needed), _initial(memory2, needed))
    slots = [_input(paired, name, inputs[0][name], inputs[1][name], layouts) for name in inputs[0]]
    _check_explained(paired, slots)
    finals = finals or _replayed((first, second), (memory, memory2))
    return slots + _outputs(finals, outputs, layouts, copies)


def _check_alike(traces: tuple[Trace, Trace], memories: tuple[Memory, Memory]) -> None:
    """Whether the recordings make the GPU do the same."""
    same_stream(*traces, "inputs")
    _same_mappings(*memories, "inputs")


def _check_cpu_writes(first: Memory, second: Memory) -> None:
    if _cpu_writes(first) != _cpu_writes(second):
        raise RecordError("memory that the CPU changes between jobs depends on the inputs")


def _same_mappings(first: Memory, other: Memory, what: str) -> None:
    one, two = ({key: m.flags for key, m in memory.mappings.items()} for memory in (first, other))
    differing = sorted(key for key in one.keys() | two.keys() if one.get(key) != two.get(key))
    if differing:
        raise RecordError(
            f"GPU mappings depend on the {what}: the first that differs is page {differing[0][1]:#x}"
        )


def _cpu_writes(memory: Memory) -> list[tuple[int, tuple[int, int], int, bytes]]:
    """What the CPU writes between jobs, by GPU page."""
    pages = {m.frame: key for key, m in memory.mappings.items()}
    return [(x.before, pages[x.to // PAGE_BYTES], x.to % PAGE_BYTES, x.data) for x in memory.cpu_writes]


def _needed(memory: Memory, seen: Observation) -> Needed:
    """Runs of words in every GPU page that jobs read before writing them."""
    masks = {page: seen.needed(m.frame).reshape(-1, WORD) for (_, page), m in memory.mappings.items()}
    return {page: runs(np.any(mask, axis=1), 1) for page, mask in masks.items()}


def _initial(memory: Memory, needed: Needed) -> Words:
    """Those words by GPU address, as the first job finds them."""
    words: Words = {}
    for (_, page), mapping in memory.mappings.items():
        content = memory.pages[mapping.frame].content.view("<u4")
        for start, end in needed[page]:
            words[page * PAGE_BYTES + start * WORD] = content[start:end]
    return words


def _input(
    paired: PairedMemory, name: str, first: NDArray[np.float32], second: NDArray[np.float32], layouts: Layouts
) -> Slot:
    try:
        places = find(paired, pairs_of(first, second), layouts(first.shape))
    except RepeatedError as error:
        raise RecordError(f"input {name} cannot be followed through memory: {error}") from None
    if not places:
        raise RecordError(f"input {name} does not stand in GPU memory as it is given: the program may convert it")
    if len(places) > 1:
        where = ", ".join(f"{p.address:#x}" for p in places)
        raise RecordError(f"jobs read input {name} in {len(places)} places: {where}")
    return _slot(name, SlotKind.INPUT, places[0])


def _slot(name: str, kind: SlotKind, place: Placement) -> Slot:
    bound, layout = kind != SlotKind.OUTPUT, place.layout
    return Slot(
        name, kind, DType.FLOAT32, layout.shape, layout.strides, place.address, bound=bound, split=layout.split
    )


def _check_explained(paired: PairedMemory, slots: list[Slot]) -> None:
    explained = np.concatenate([slot.element_addresses().reshape(-1) for slot in slots] or [np.zeros(0, np.int64)])
    rest = np.setdiff1d(paired.differing(), explained)
    if len(rest):
        raise RecordError(
            f"{len(rest)} words of memory that jobs read depend on the inputs but are not part of one; "
            f"the first is at GPU address {int(rest[0]):#x}"
        )


def _replayed(traces: tuple[Trace, Trace], memories: tuple[Memory, Memory]) -> tuple[Words, Words]:
    """What replays of two recordings leave on the virtual GPU, in the pages that one of them changes."""
    finals = [_changed(trace, memory) for trace, memory in zip(traces, memories, strict=True)]
    pages = finals[0].keys() | finals[1].keys()
    one, two = (
        {page * PAGE_BYTES: final[page] if page in final else _content(memory, page) for page in pages}
        for final, memory in zip(finals, memories, strict=True)
    )
    return one, two


def _content(memory: Memory, page: int) -> NDArray[np.uint32]:
    """The words of a GPU page before the first job."""
    return memory.pages[memory.mappings[0, page].frame].content.view("<u4")


def _changed(trace: Trace, memory: Memory) -> Words:
    """The words of every GPU page that a replay changes, by page, as they are after it."""
    with interpreter(trace) as run:
        run.run()
        words = run.memory.view("<u4").reshape(-1, PAGE_BYTES // WORD)
        finals = ((page, words[mapping.frame]) for (_, page), mapping in memory.mappings.items())
        return {page: final.copy() for page, final in finals if not np.array_equal(final, _content(memory, page))}


def _outputs(
    finals: tuple[Words, Words], outputs: tuple[Tensors, Tensors], layouts: Layouts, copies: Copies
) -> list[Slot]:
    """Look in the memories for what the programs got, in the order in which they got it."""
    paired = PairedMemory(*finals)
    # A framework that downloads each output by a job does so in their order, and by no other jobs.
    exact = len(copies.downloads) == len(outputs[0])
    downloads = dict(zip(outputs[0], copies.downloads, strict=True)) if exact else {}
    found: dict[str, Placement] = {}
    for name, tensor in outputs[0].items():
        try:
            places = find(paired, pairs_of(tensor, outputs[1][name]), layouts(tensor.shape), copies.beginnings)
        except RepeatedError as error:
            raise RecordError(f"output {name} cannot be followed through memory: {error}") from None
        if not places:
            raise RecordError(f"a replay of the recording does not give output {name} anywhere in GPU memory")
        ranks = {place: copies.rank(place.addresses(), downloads.get(name)) for place in places}
        found[name] = handed_out(ranks, list(found.values()))
    return [_slot(name, SlotKind.OUTPUT, place) for name, place in found.items()]


def _parameters(first: Trace, memory: Memory, needed: Needed, other: tuple[Trace, Memory]) -> list[Slot]:
    """Runs of words that depend on the weights, as flat tensors in GPU layout."""
    third, memory2 = other
    same_stream(first, third, "weights")
    _same_mappings(memory, memory2, "weights")
    paired = PairedMemory(_initial(memory, needed), _initial(memory2, needed))
    gap = 16 * WORD
    found = paired.stretches(gap)
    while len(found) > MAX_PARAMETERS:
        gap *= 4
        found = joined(found, gap)
    return [
        _slot(f"param{i}", SlotKind.PARAMETER, Placement(begin, in_order(((last + WORD - begin) // WORD,))[0]))
        for i, (begin, last) in enumerate(found)
    ]


def _add(trace: Trace, slots: list[Slot]) -> Trace:
    """Copies in before the first job; copies out after the last one, before its memory is unmapped."""
    columns = Columns(trace.actions)
    jobs = np.flatnonzero(columns.is_op(Op.JOB))
    changes = np.flatnonzero(columns.is_op(Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM))
    end = int(next((at for at in changes if at > jobs[-1]), len(trace.actions)))
    copies = {
        op: np.array(
            [
                action(op, arg=i)
                for i, s in enumerate(slots)
                if (s.kind == SlotKind.OUTPUT) == (op == Op.COPY_FROM_GPU)
            ],
            dtype=ACTION_DTYPE,
        )
        for op in (Op.COPY_TO_GPU, Op.COPY_FROM_GPU)
    }
    head, body, tail = trace.actions[: jobs[0]], trace.actions[jobs[0] : end], trace.actions[end:]
    parts = [head, copies[Op.COPY_TO_GPU], body, copies[Op.COPY_FROM_GPU], tail]
    return trace.with_(actions=np.concatenate(parts), slots=slots)
