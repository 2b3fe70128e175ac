# SPDX-License-Identifier: BSD-2-Clause
"""From a raw recording to a trace worth signing: passes, and the pipeline that runs them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import NDArray

from host_tools.accesses.noted_accesses import NOTE
from host_tools.families.family import part_of
from host_tools.families.shares import order_of, overlap
from host_tools.families.streams import Streams
from host_tools.model import products
from host_tools.model.checkpoints import unmarked
from host_tools.model.noted_states import NOTE as STATES
from host_tools.model.noted_states import noted_states
from host_tools.model.slot_mappings import check_slots
from host_tools.passes import memory_passes
from host_tools.passes.listing import PASSES
from host_tools.passes.note_check import check_note
from host_tools.passes.parameters import bind_program
from host_tools.passes.program import Program, Sizes
from host_tools.passes.state import keep
from host_tools.passes.timeouts import MARGIN
from trace_format.actions import Columns, Op
from trace_format.errors import GramophoneError, TraceError, meant
from trace_format.trace import Trace
from trace_format.validate import job_count

KEEP_INPUTS = (memory_passes.drop_recorded_inputs.name,)  # to skip, for replays that are given no input


@dataclass(frozen=True)
class Step(Sizes):
    """What one pass did: sizes after it.

    Attributes:
        not_done: why the program does not allow it; "" where the pass was done.
    """

    name: str
    not_done: str = ""


def build(
    raw: Trace | Program,
    *,
    skip: Sequence[str] = (),
    parameters: Mapping[str, NDArray[Any]] | None = None,
    states: Mapping[str, str] | None = None,
    open_slots: Collection[str] = (),
    first: Mapping[str, NDArray[Any]] | None = None,
    source: bytes | None = None,
    progress: Callable[[Step], None] | None = None,
    recording: Callable[[], Trace] | None = None,
    trust_note: bool = False,
    timeout_margin: int | None = MARGIN,
    asked: Mapping[str, float] | None = None,
) -> Trace:
    """Run all passes but those in `skip`.

    Where passes have believed what the recording's notes say of its jobs' accesses, what was built is replayed to
    see whether it is so (host_tools/passes/note_check.py).

    Args:
        raw: the recording; as a program, which is changed, its image need not be kept meanwhile; the trace's
            image is a view of a sheet then.
        skip: names of passes to leave out.
        parameters: values for parameter slots, by name.
        states, open_slots, first: as `host_tools.passes.state.keep`.
        source: the recording's file, whose SHA-256 goes into the manifest.
        progress: called after every pass.
        recording: gives the recording again where `raw` is a program, for an error's words on outputs; None: they
            are left out.
        timeout_margin: waits for jobs end after so many times what the model says that these take at worst; None:
            as recorded.
        asked: pass that has an option -> the option's value; without one it is left out.
        trust_note: do not replay what was built; for notes that this process has made.

    Raises:
        GramophoneError: a name in `skip` is no pass, a parameter does not fit its slot, the recording holds no GPU
            memory, or a slot is not mapped; or jobs run at the same time (`sharing join --share`): passes over
            memory take them one after another.
        TraceError: the recording's note is not true.
    """
    left_out = _left_out(skip, asked or {})
    program = raw if isinstance(raw, Program) else Program(raw)
    program.timeout_margin, program.on_sheet = timeout_margin, program is raw
    program.asked = asked or {}
    actions = unmarked(program.actions)
    if actions is not program.actions:
        program.actions = actions
    _check_can_be_built(program)
    bind_program(program, parameters or {})
    if parameters or first:
        program.forget_accesses(unproved_only=True)
    keep(program, states or noted_states(program.trace().notes), open_slots, first)
    applied = []
    again = recording or (None if isinstance(raw, Program) else lambda: raw)
    for item in PASSES.values():
        if item.is_for(program.profile) and item.name not in left_out:
            if item.changes_jobs and program.believed and not trust_note:
                mappings, note = program.memory.mappings, program.believed
                check_note(program.trace(), mappings, note, program.recorded_slots, again, parameters or {})
                program.forget_accesses()
            not_done = item.edit(program)
            if not not_done:
                applied.append(item.name)
            if progress:
                progress(Step(name=item.name, not_done=not_done, **asdict(program.sizes())))
    believed = None if trust_note else program.believed
    at_last = program.memory.mappings if believed else None
    trace = program.finish(sheet=program.on_sheet)
    streams = part_of(program.profile, Streams)
    if streams:
        streams.check(trace)
    notes = {name: note for name, note in trace.notes.items() if name not in (NOTE, STATES, products.NOTE)}
    trace = trace.with_(raw=False, notes={**notes, "passes": applied})
    if believed and at_last:
        check_note(trace, at_last, believed, program.recorded_slots, again, parameters or {}, program.pieces)
    if source is not None:
        trace = trace.with_(meta={**trace.meta, "source_hash": hashlib.sha256(source).digest()})
    return trace


def _left_out(skip: Sequence[str], asked: Mapping[str, float]) -> set[str]:
    """Names of passes that do not run; GramophoneError: a name is no pass's."""
    unknown = sorted({*skip, *asked} - PASSES.keys())
    if unknown:
        hint = meant(unknown[0], PASSES)
        raise GramophoneError(f"no pass called {', '.join(unknown)}{hint}; there are: {', '.join(PASSES)}")
    return {*skip, *(name for name, item in PASSES.items() if item.option and name not in asked)}


def _check_can_be_built(program: Program) -> None:
    """TraceError: there is no GPU memory, jobs run at the same time, or a slot is not mapped."""
    actions = program.actions
    if pieces := program.trace().streamed:
        raise TraceError(
            "cannot build a streamed trace again: build its recording", expected="no pieces", found=len(pieces)
        )
    if job_count(actions) and not Columns(actions).is_op(Op.MAP_GPU_MEM).any():
        raise TraceError("cannot build it: it holds register accesses without GPU memory")
    order = order_of(program.trace())
    if order and overlap(order):
        raise TraceError("two of its jobs run at the same time: build traces before `sharing join --share`")
    check_slots(program.trace())
