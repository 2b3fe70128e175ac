# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone report`: how a trace behaves, on one page."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import click

from host_tools.accesses.job_times import estimated_jobs
from host_tools.api.keys import anchors_of
from host_tools.audit.allowed import read as read_allowed
from host_tools.audit.report import facts
from host_tools.audit.report.collect import Asked, collect, parse, with_times
from host_tools.audit.report.pdf import browser, pdf
from host_tools.commands.facts import check_single
from host_tools.commands.framework import FILE, STREAM, GramophoneCommand, Outcome
from host_tools.commands.option_rules import excludes
from host_tools.commands.run_options import KEYS, RUN_INPUTS, RUN_PARAMETERS
from host_tools.commands.streams import check_output, read, write
from host_tools.model.parts import named
from host_tools.support.files import check_writable, write_atomically
from host_tools.support.progress import phase
from host_tools.support.tensors import assigned, load_all
from host_tools.vgpu import confined
from trace_format.errors import TraceError, listed, printable
from trace_format.schema import SlotKind

Files = tuple[tuple[str | None, Path], ...]


@dataclass(frozen=True, kw_only=True)
class Reported(facts.Report):
    """How a trace behaves.

    Attributes:
        files: those that were written.
    """

    files: list[str]


@click.command(
    "report",
    cls=GramophoneCommand,
    reads_traces=True,
    example=(
        "gramophone report net.sgtr --key pub.pem -o report.html\n"
        "gramophone report net.sgtr --key pub.pem --pdf report.pdf\n"
        "gramophone report net.gtr --no-run --json"
    ),
)
@click.argument("file", type=FILE)
@click.option("-o", "--output", type=FILE, help="Page to write (HTML); - is standard output.")
@click.option("--pdf", "pdf_file", type=FILE, help="Also write the page as PDF; needs Chromium.")
@KEYS
@RUN_INPUTS
@RUN_PARAMETERS
@click.option(
    "--no-run", is_flag=True, help="Skip the run on the virtual GPU, and the accesses that it would show."
)
@click.option("--allow", type=FILE, help="TOML file with accepted findings, each with a reason.")
@click.option("--network", metavar="NAME", help="Network of a joint trace to report on.")
@excludes("--no-run", "--input", "--param")
def report_command(
    file: Path,
    output: Path | None,
    pdf_file: Path | None,
    key: tuple[Path, ...],
    inputs: Files,
    parameters: Files,
    no_run: bool,
    allow: Path | None,
    network: str | None,
) -> Outcome[Reported]:
    """Write one page about a trace: signers, needs, jobs.

    The page shows the signers of the trace, its requirements and the memory accesses of its jobs
    (docs/REPORT.md). Without -o, only the main facts are printed; with --json, all facts. Exit status 1: devices
    refuse the trace, or it has an error or a warning that --allow does not name, as with `gramophone lint
    --strict --dynamic`. The page is written in any case. For a file that is no trace the status is 2.
    """
    files = assigned("input", inputs), assigned("parameter", parameters)
    trusted = anchors_of(key) if key else None
    allowances = read_allowed(allow) if allow else []
    data = read(file)
    if output is not None:
        check_output(output)
    if output is not None or pdf_file is not None:
        from host_tools.audit.report.page import page  # without a page, no Jinja2 is needed
    program = ""
    if pdf_file is not None:
        check_writable(pdf_file)
        program = browser()
    try:
        trace = parse(data, str(file))
    except TraceError as error:
        _write_unreadable(output, facts.file_of(str(file), data), str(error))
        raise
    if network is not None:
        trace = named(trace, network)
    check_single(trace, str(file))
    values = load_all(trace, files[0], SlotKind.INPUT) | load_all(trace, files[1], SlotKind.PARAMETER)
    origins = {name: str(path) for given in files for name, path in given.items()}
    command = _command(file, key, inputs, parameters, allow, no_run)
    with phase("reading the trace" if no_run else "running it on the virtual GPU"):
        asked = Asked(str(file), data, trusted, command, allowances, not no_run, values, origins)
        found = confined.call(lambda: collect(asked, trace), facts.Report)
    if found.run.state == facts.RAN and (times := estimated_jobs(trace)) is not None:
        found = with_times(found, *times)
    written = []
    if output is not None:
        write(output, page(found).encode())
        written += [str(output)] * (output != STREAM)
    if pdf_file is not None:
        with phase("printing the page"):
            write_atomically(pdf_file, pdf(page(found, unfolded=True), program))
        written.append(str(pdf_file))
    return Outcome(Reported(**vars(found), files=written), "\n".join([*_text(found), *written]), ok=found.ok)


def _write_unreadable(output: Path | None, file: facts.File, reason: str) -> None:
    """The page's reader is not who runs the command: it says what the error says."""
    if output is not None:
        from host_tools.audit.report.page import unreadable_page

        write(output, unreadable_page(file, reason).encode())


def _command(
    file: Path, key: tuple[Path, ...], inputs: Files, parameters: Files, allow: Path | None, no_run: bool
) -> str:
    """The command line that makes the report again."""
    words = ["gramophone", "report", str(file)]
    words += [word for path in key for word in ("--key", str(path))]
    for option, given in (("--input", inputs), ("--param", parameters)):
        words += [
            word for name, path in given for word in (option, str(path) if name is None else f"{name}={path}")
        ]
    words += [] if allow is None else ["--allow", str(allow)]
    return shlex.join([*words, *["--no-run"] * no_run, "-o", "report.html"])


def _text(found: facts.Report) -> list[str]:
    """The main facts."""
    rows = [
        ("signature", f"{found.signature.verdict}: {found.signature.reason}"),
        ("devices", found.signature.refused_by_devices or "none refuses what it does"),
        ("name", printable(found.about.name)),
        ("gpu", f"{found.about.gpu}{', a raw recording' if found.about.raw else ''}"),
        ("needs", f"{found.needs.secure_bytes} bytes of secure memory; values for {listed(found.needs.values)}"),
        ("jobs", f"{len(found.jobs)}, with {len(found.shaders)} shaders, in {found.actions} actions"),
        ("run", f"{found.run.text} (compute: {found.run.compute})"),
        *([("estimated", f"{found.estimate.text()}, by a model")] if found.estimate else []),
        ("findings", ", ".join(f"{number} {name}{'s' * (number != 1)}" for name, number in found.counts.items())),
    ]
    return [f"{name:16} {text}" for name, text in rows]
