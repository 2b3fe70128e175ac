# SPDX-License-Identifier: BSD-2-Clause
"""Whether what was built by a recording's note does what the note says: the jobs are run, once, after the passes.

A note (host_tools/accesses/noted_accesses.py) says which bytes jobs access, and passes leave out the others. It
came with the recording, so it may be wrong, by mistake or on purpose. What was built holds the first values of
all bytes that jobs read by the note. If a replay of it accesses what the note says and no other byte, then each
job has read what it reads in the recording, the first as the second, by induction; and with other data, too, if
the code proves that these lead to the same accesses (host_tools/accesses/proof.py). Of other jobs it is a
sample: one replay, with random inputs. Outputs would show less: a weight that is left out may matter for some
inputs only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.by_job import joined
from host_tools.accesses.noted_accesses import Noted
from host_tools.accesses.observe import OTHER_SEED, random_inputs, watched
from host_tools.accesses.proof import Flags, Job
from host_tools.families.page_tables import DivergenceError
from host_tools.model.equivalence import worst_output
from host_tools.model.mappings import Mappings
from host_tools.vgpu.binding import (
    ACCESS_COMMAND,
    ACCESS_READ,
    ACCESS_READ_FIRST,
    ACCESS_WRITTEN,
    VgpuError,
)
from trace_format.errors import TraceError, printable
from trace_format.schema import PAGE_BYTES
from trace_format.slots import Slot
from trace_format.trace import Trace

NOT_CHECKED = "accesses of jobs"  # in the notes of a trace that was built without the check
LEFT_OUT = "as the recording says, not checked"
_ADVICE = "nothing was written; 'build --observe' runs the jobs and does not ask the recording"
_WORDS = {
    ACCESS_READ_FIRST: "reads",
    ACCESS_READ: "reads again",
    ACCESS_WRITTEN: "writes",
    ACCESS_COMMAND: "is decided by",
}


def check_note(
    built: Trace,
    mappings: Mappings,
    note: Noted,
    slots: Sequence[Slot],
    recording: Callable[[], Trace] | None,
    parameters: Mapping[str, NDArray[Any]],
    pieces: Sequence[int] = (),
) -> None:
    """Replay what was built on the virtual GPU, and compare what its jobs access with what the note says.

    Args:
        built: by the note.
        mappings: its own.
        note: of the recording.
        slots: of the recording, to say what lies where the note is wrong.
        recording: gives it, to say what the difference does to outputs; None: that is not said.
        parameters: values that were given in place of the recorded ones.
        pieces: of each job that the note has, how many it became; (): one each.

    Raises:
        TraceError: they differ, or it cannot be replayed; names the job, GPU address, slot and element, and the
            output and element with the largest difference in a replay.
    """
    try:
        seed = int.from_bytes(hashlib.sha256(built.actions.tobytes()).digest())
        seen = watched(built, random_inputs(built, seed))
        wrong = _wrong(mappings, _whole(seen.jobs, pieces), note, slots, changes=seen.changes_commands)
    except (DivergenceError, VgpuError) as error:
        raise _error(f"a replay of what was built by it ends early: {error}") from error
    if wrong:
        raise _error("; ".join([wrong, *([_outputs(recording(), built, parameters)] if recording else [])]))


def _whole(seen: Sequence[Job], pieces: Sequence[int]) -> Sequence[Job]:
    """Jobs as the recording has them: pieces of one together."""
    if len(seen) != sum(pieces):
        return seen
    found = []
    rest = iter(seen)
    for count in pieces:
        own = list(islice(rest, count))
        varies = any(job.varies for job in own)
        found.append(Job(joined([job.accesses for job in own]), varies) if count > 1 else own[0])
    return found


def _error(what: str) -> TraceError:
    return TraceError(f"the note 'accesses' does not say what its jobs do: {what}; {_ADVICE}")


def _wrong(mappings: Mappings, seen: Sequence[Job], note: Noted, slots: Sequence[Slot], *, changes: bool) -> str:
    """The first job that accesses other bytes than the note says, in words; "": none does."""
    noted = note.jobs_at(mappings)
    if noted is None or len(noted) != len(seen):
        return (
            f"it is about {'pages that are not mapped' if noted is None else f'{len(noted)} of {len(seen)} jobs'}"
        )
    pages = dict(zip(mappings.frames[::-1].tolist(), mappings.pages[::-1].tolist(), strict=True))
    for number, (job, said) in enumerate(zip(seen, noted, strict=True)):
        if (job.varies or changes) and not said.varies:
            return f"what job {number} accesses is not proved"
        frames = sorted(job.accesses.keys() | said.accesses.keys(), key=lambda frame: pages[frame])
        found = [(frame, job.accesses.get(frame, _NONE), said.accesses.get(frame, _NONE)) for frame in frames]
        # More may decide by the note than the virtual GPU can tell: passes then change less.
        more = [
            (frame, does if does is says else does | says & ACCESS_COMMAND, says) for frame, does, says in found
        ]
        apart = [item for item in more if item[1] is not item[2] and not np.array_equal(item[1], item[2])]
        if apart:
            total = sum(int(np.count_nonzero(does != says)) for _, does, says in apart)
            frame, does, says = apart[0]
            at = int(np.argmax(does != says))
            address = pages[frame] * PAGE_BYTES + at
            return (
                f"of {total} bytes it says other things than job {number} does; the first is at GPU address "
                f"{address:#x}{_slot_at(slots, address)}, which the job {_words(does[at])}, "
                f"and by the note {_words(says[at])}"
            )
    return ""


_NONE: Flags = np.zeros(PAGE_BYTES, np.uint8)


def _words(flags: int) -> str:
    found = [word for flag, word in _WORDS.items() if flags & flag]
    if flags & ACCESS_READ_FIRST:
        found.remove(_WORDS[ACCESS_READ])
    return " and ".join(found) or "does not access"


def _slot_at(slots: Sequence[Slot], address: int) -> str:
    """The tensor that has a byte, and which element: ` (parameter fc, element [3])`; "": none has it."""
    for slot in slots:
        if not slot.address <= address < slot.address + slot.span:
            continue
        inside = address - slot.element_addresses()
        found = np.argwhere((inside >= 0) & (inside < slot.numpy_dtype.itemsize))
        if len(found):
            return f" ({slot.kind.name.lower()} {printable(slot.name)}, element {found[0].tolist()})"
    return ""


def _outputs(recording: Trace, built: Trace, parameters: Mapping[str, NDArray[Any]]) -> str:
    """What becomes of outputs."""
    try:
        worst = worst_output(recording, built, random_inputs(recording, OTHER_SEED) | dict(parameters))
    except (DivergenceError, VgpuError) as error:
        return f"a replay ends early: {error}"
    if not worst:
        return "outputs of a replay with random inputs are the same, and need not be with others"
    return f"largest difference of a replay with random inputs: {worst}"
