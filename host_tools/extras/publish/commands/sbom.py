# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone publish sbom`: bills of materials."""

from __future__ import annotations

from pathlib import Path

import click

from host_tools.commands.extras import extra
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome
from host_tools.commands.streams import OUTPUT, check_output, read, write
from host_tools.support.results import Count, Result
from trace_format import layout


class BillWritten(Result):
    """A bill of materials that was written."""

    file: str
    subject: str
    version: str | None
    components: Count


@click.command(
    "sbom",
    cls=GramophoneCommand,
    reads_traces=True,
    example=(
        "gramophone publish sbom -o host.cdx.json\n"
        "gramophone publish sbom out -o firmware.cdx.json\n"
        "gramophone publish sbom net.sgtr -o net.cdx.json"
    ),
)
@click.argument("what", metavar="[FOLDER|TRACE]", type=FILE, required=False)
@OUTPUT
def sbom(what: Path | None, output: Path) -> Outcome[BillWritten]:
    """Write a bill of materials (SBOM, CycloneDX 1.6).

    The bill is JSON. For a FOLDER of `generate`, it lists source files, crypto libraries and, if compiled, the
    firmware and the compiler. For a TRACE, it has the sources of the recording, as the trace claims, unverified.
    Without an argument, it has the installed tools, their Python packages and the programs that they run.

    $SOURCE_DATE_EPOCH sets its time.
    """
    with extra("sbom", "cyclonedx", "packageurl", "packaging"):
        from host_tools.extras.publish.sbom import document, firmware, host, model
    check_output(output)
    if what is None:
        bill = host.bill()
    elif what.is_dir():
        bill = firmware.bill(what)
    else:
        with layout.naming(str(what)):
            bill = model.bill(read(what), str(what))
    data = document.encode(bill)
    write(output, data)
    subject, count = bill.subject, len(bill.components)
    return Outcome(
        BillWritten(str(output), subject.name, subject.version, count),
        f"{output}: {subject.name} {subject.version}, {count} components",
    )
