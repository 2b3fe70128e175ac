# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone open`."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from host_tools.api.keys import anchors_of
from host_tools.audit.report.collect import Asked, parse
from host_tools.commands.facts import check_single
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome
from host_tools.commands.run_options import KEYS, RUN_INPUTS, RUN_PARAMETERS
from host_tools.commands.streams import read
from host_tools.support.progress import phase
from host_tools.support.results import Count, Result
from host_tools.support.tensors import assigned, load_all
from signing.trust import Anchor
from trace_format.schema import SlotKind
from trace_format.trace import Trace

Files = tuple[tuple[str | None, Path], ...]


class Opened(Result):
    """A window that was closed.

    Attributes:
        pages: That the browser asked for.
    """

    url: str
    pages: Count


@click.command(
    "open",
    cls=GramophoneCommand,
    reads_traces=True,
    example=(
        "gramophone open net.sgtr --key pub.pem --input data=x.npy\n"
        "gramophone open net.raw.gtr --compare net.gtr --no-browser"
    ),
)
@click.argument("file", type=FILE)
@KEYS
@RUN_INPUTS
@RUN_PARAMETERS
@click.option(
    "--compare", "other", type=FILE, help="Trace to compare with, job by job; its signature is not verified."
)
@click.option("--port", type=click.IntRange(1, 65535), help="Port on loopback; default: any that is free.")
@click.option("--no-browser", is_flag=True, help="Start no browser: print the address only.")
def open_command(
    file: Path,
    key: tuple[Path, ...],
    inputs: Files,
    parameters: Files,
    other: Path | None,
    port: int | None,
    no_browser: bool,
) -> Outcome[Opened]:
    """Step through a trace's jobs in the browser.

    Each job has a page: what it reads and writes as pictures, histograms and numbers, and its shader. The
    report is one of the pages. Tensors are computed on the virtual GPU when a page shows them. The pages are
    served on loopback, below a random key, until Ctrl-C; nothing leaves this machine.
    """
    from host_tools.extras.window.pages import Pages  # help needs no Jinja2
    from host_tools.extras.window.server import Page, Server
    from host_tools.extras.window.session import Session, Subject

    files = assigned("input", inputs), assigned("parameter", parameters)
    trusted = anchors_of(key) if key else None
    traces = [(path, read(path)) for path in (file, *([other] if other else []))]
    parsed = [_single(data, path) for path, data in traces]
    given = load_all(parsed[0], files[0], SlotKind.INPUT) | load_all(parsed[0], files[1], SlotKind.PARAMETER)
    origins = {name: str(path) for one in files for name, path in one.items()}
    with phase("reading the trace" if other is None else "reading the traces"):
        subjects = [
            Subject(_asked(path, data, trusted if number == 0 else None, given, origins), trace)
            for number, ((path, data), trace) in enumerate(zip(traces, parsed, strict=True))
        ]
        pages = Pages(Session(*subjects))
    asked = 0

    def answer(path: str, query: dict[str, str]) -> Page:
        nonlocal asked
        asked += 1
        return pages.answer(path, query)

    server = Server(answer, port or 0)
    click.echo(f"{server.url}\nCtrl-C ends it", err=True)
    if not no_browser:
        webbrowser.open(server.url)
    try:
        server.serve()
    except KeyboardInterrupt:
        return Outcome(Opened(server.url, asked), f"closed after {asked} pages")


def _single(data: bytes, file: Path) -> Trace:
    trace = parse(data, str(file))
    check_single(trace, str(file))
    return trace


def _asked(
    file: Path, data: bytes, keys: Sequence[Anchor] | None, values: dict[str, Any], origins: dict[str, str]
) -> Asked:
    return Asked(str(file), data, keys, f"gramophone open {file}", values=values, files=origins)
