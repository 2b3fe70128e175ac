# SPDX-License-Identifier: BSD-2-Clause
"""Building: a recording's passes, in a process in a sandbox, and what they did. It needs no cryptography."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from host_tools.families.family import part_of
from host_tools.families.page_tables import DivergenceError
from host_tools.families.retargeting import Applied, Retargeting
from host_tools.passes.note_check import LEFT_OUT, NOT_CHECKED
from host_tools.passes.pipeline import KEEP_INPUTS, Step, build
from host_tools.passes.program import Program, Report
from host_tools.support.messages import LOG
from host_tools.support.progress import phase
from host_tools.vgpu import confined
from host_tools.vgpu.binding import VgpuError
from trace_format import layout
from trace_format.errors import GramophoneError, TraceError
from trace_format.trace import Trace

T = TypeVar("T")


@dataclass(frozen=True)
class Made:
    """What was built.

    Attributes:
        trace: its content.
        pieces: its file's bytes, in pieces.
        changes: what a GPU's rules changed.
        steps: what passes did, in order.
        reports: what passes that are asked for did, by name.
    """

    trace: Trace
    pieces: Sequence[Any]
    changes: Sequence[Applied]
    steps: Sequence[Step]
    reports: Mapping[str, Report]


@dataclass(frozen=True)
class Answer:
    """What comes back from the process that builds: the file, and what passes did."""

    pieces: list[bytes]
    steps: list[Step]

    @classmethod
    def of(cls, made: Made) -> Answer:
        """What was made, without its content."""
        return cls(list(made.pieces), list(made.steps))


def retargeted(trace: Trace, gpu: str | None, file: str) -> tuple[Trace, Sequence[Applied]]:
    """A recording as one for another GPU, and what was changed; TraceError: no rules do that."""
    if gpu is None or gpu == trace.gpu:
        return trace, ()
    with layout.naming(file):
        part = part_of(trace.profile, Retargeting)
        if part is None:
            raise TraceError(
                f"no rules turn a recording of {trace.gpu} into a trace for {gpu}, or for any other GPU"
            )
        return part.retarget(trace, gpu)


def built(
    recording: list[Trace],
    give: Callable[[Made], T],
    kind: type[T],
    *,
    file: str,
    source_hash: bytes,
    again: Callable[[], Trace] | None,
    reads: tuple[Path, ...] = (),
    changes: Sequence[Applied] = (),
    name: str | None = None,
    security_version: int | None = None,
    observe: bool = False,
    keep_inputs: bool = False,
    skip: Sequence[str] = (),
    trust_note: bool = False,
    **options: Any,
) -> T:
    """Run the passes in a process of its own, for they run the recording's shaders.

    Args:
        recording: it alone; it is taken out of the list, so that its image need not be kept meanwhile.
        give: makes the answer of what was built, in that process.
        kind: the answer's type.
        file: its name, for messages.
        source_hash: SHA-256 of the recording's file, for the manifest.
        again: gives the recording again, for an error's words; None: it cannot be had again.
        reads: files that `again` reads.
        changes: what `retargeted` changed.
        name, security_version: of the trace; None: the recording's.
        observe: run the jobs to see what memory they access, even if the recording says it.
        keep_inputs: keep recorded inputs, for replays that are given none.
        skip, trust_note, options: as `host_tools.passes.pipeline.build`.

    Raises:
        GramophoneError: as `host_tools.passes.pipeline.build`; or the recording's jobs cannot be run.
    """

    def work() -> T:
        steps: list[Step] = []

        def done(step: Step) -> None:
            steps.append(step)
            LOG.debug("%s: %d actions, %d bytes", step.name, step.actions, step.image_bytes)

        program = Program(recording.pop())
        if observe:
            program.forget_accesses()
        try:
            with layout.naming(file):
                trace = build(
                    program,
                    skip=(*skip, *KEEP_INPUTS) if keep_inputs else skip,
                    progress=done,
                    recording=again,
                    trust_note=trust_note,
                    **options,
                )
        except (DivergenceError, VgpuError) as error:  # passes run the trace
            raise GramophoneError(f"{file}: {error}") from error
        if trust_note and program.believed:
            trace.notes[NOT_CHECKED] = LEFT_OUT
        reports = program.reports
        del program
        trace.meta["source_hash"] = source_hash
        if name is not None:
            trace.meta["name"] = name
        if security_version is not None:
            trace.meta["security_version"] = security_version
        with phase("compressing"):
            pieces = trace.pieces()
        return give(Made(trace, pieces, changes, steps, reports))

    with phase("running the passes"):
        return confined.call(work, kind, reads=reads)
