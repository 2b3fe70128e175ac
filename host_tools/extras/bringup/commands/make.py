# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone prove make`: a probe of a trace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError
from host_tools.commands.streams import OUTPUT, check_output, write
from host_tools.commands.traces import read_trace
from host_tools.extras.bringup import probes
from host_tools.extras.bringup.commands.values import Files, given, taking_values
from host_tools.extras.bringup.probes import Place
from host_tools.support.files import check_writable, write_atomically
from host_tools.support.progress import phase
from host_tools.support.results import Count, Positive, Result
from host_tools.vgpu import confined
from trace_format.schema import PAGE_BYTES, SlotKind


class Jobs(click.ParamType[Any]):
    """FIRST-LAST, or one number."""

    name = "first-last"

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """As help shows it."""
        return "FIRST-LAST"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """The jobs."""
        found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", str(value))
        jobs = range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0)
        if not jobs:
            self.fail(f"expected FIRST-LAST, as 0-13, found {value!r}", param, ctx)
        return jobs


class Probed(Result):
    """A probe.

    Attributes:
        jobs: That write memory, of those asked for.
        pages: That they write; a page counts once for each job.
        bytes: Of the probe's outputs.
    """

    output: str
    jobs: Count
    pages: Count
    bytes: Positive


@click.command(
    "make",
    cls=GramophoneCommand,
    reads_traces=True,
    example="gramophone prove make net.gtr --input data=x.npy -o probe.gtr --words probe.words\n"
    "gramophone sign probe.gtr --signing-key key.pem -o probe.sgtr\n"
    "gramophone-gpu replay probe.sgtr --input data=x.npy $(cat probe.words)       # on the board",
)
@click.argument("trace", type=FILE)
@taking_values
@click.option("--only", type=Jobs(), help="Jobs to look at, by their number; default: all.")
@OUTPUT
@click.option(
    "--words",
    type=FILE,
    help="File for the words --output SLOT=SLOT.npy that a board's replay takes for all outputs.",
)
def make_command(
    trace: Path, inputs: Files, parameters: Files, only: range | None, output: Path, words: Path | None
) -> Outcome[Probed]:
    """Make a trace whose outputs are what each job writes.

    The probe does what the trace does, and copies the pages that each job writes as soon as it has ended. It
    runs on every replayer, is signed like any trace, and `prove read` compares its outputs.
    """
    check_output(output)
    if words is not None:
        check_writable(words)
    found, _ = read_trace(trace)
    if probes.is_probe(found):
        raise UsageError(f"{trace}: a probe already: expected a trace of `build`")
    values = given(found, str(trace), inputs, parameters)
    with phase("replaying on the virtual GPU"):
        pages = confined.call(lambda: probes.written_pages(found, values), dict[int, list[Place]])
    if only is not None:
        pages = {job: places for job, places in pages.items() if job in only}
    made = probes.probe(found, pages)
    write(output, made.build())
    own = [slot for slot in made.slots if slot.kind == SlotKind.OUTPUT]
    if words is not None:
        write_atomically(words, "".join(f"--output {slot.name}={slot.name}.npy\n" for slot in own).encode())
    data = Probed(
        output=str(output),
        jobs=len({probes.probed_job(slot) for slot in own} - {None}),
        pages=sum(slot.span for slot in own if probes.probed_job(slot) is not None) // PAGE_BYTES,
        bytes=sum(slot.dense_bytes for slot in own),
    )
    text = f"{output}: {data.jobs} jobs that write {data.pages} pages; the outputs are {data.bytes} bytes"
    return Outcome(data, text)
