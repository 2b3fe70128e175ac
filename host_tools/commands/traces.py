# SPDX-License-Identifier: BSD-2-Clause
"""Commands over traces: build and diff, and what others say of a trace."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, Pair, UsageError
from host_tools.commands.streams import OUTPUT, check_output, read, write
from host_tools.gpus.page_tables import DivergenceError
from host_tools.model.program import Program
from host_tools.passes import PASSES
from host_tools.passes.pipeline import KEEP_INPUTS, Step, build
from host_tools.passes.rules import Applied, retarget
from host_tools.support.messages import LOG
from host_tools.support.progress import phase
from host_tools.support.tensors import Assignment, assigned, load_all, without_value
from host_tools.vgpu.binding import VgpuError
from signing.envelope import shifted, split
from trace_format import layout, profile
from trace_format.errors import GramophoneError, listed
from trace_format.operators import OPERATORS, used
from trace_format.schema import SIGNED_MAGIC, STRUCTURES, SlotKind
from trace_format.trace import Trace

NAME_BYTES = next(item.sizeof() for item in STRUCTURES["manifest"][0].subcons if item.name == "name")


class _Name(click.ParamType[str]):
    """A trace's name: what fits into the manifest."""

    name = "TEXT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = str(value)
        if not name or default_name(name) != name:
            self.fail(f"expected 1 to {NAME_BYTES} bytes of UTF-8, found {name!r}", param, ctx)
        return name


NAME = _Name()


def default_name(text: str) -> str:
    """As much of a file's name as fits into the manifest."""
    return text.encode(errors="replace")[:NAME_BYTES].decode(errors="ignore")


def read_trace(path: Path) -> tuple[Trace, dict[str, str]]:
    """The trace in a file, signed or not, and who claims to have signed it: nothing is verified here.

    Raises:
        TraceError: it is neither.
    """
    return parse_trace(read(path), str(path))


def parse_trace(data: bytes, file: str) -> tuple[Trace, dict[str, str]]:
    """As `read_trace`, for the content of a file."""
    if not data.startswith(SIGNED_MAGIC):
        return Trace.parse(data, file), {}
    with layout.naming(file):
        signed = split(data)
        claim = {"algorithm": signed.envelope.algorithm.title, "key_id": signed.envelope.kid.hex()}
        with shifted(signed.offset):
            return Trace.parse(signed.trace), claim


def facts(trace: Trace) -> dict[str, Any]:
    """What every command says about a trace."""
    return {
        "name": trace.meta.get("name", ""),
        "trace_id": trace.trace_id.hex(),
        "gpu": trace.gpu,
        "raw": trace.raw,
        "jobs": trace.jobs,
        "actions": len(trace.actions),
        "image_bytes": len(trace.image),
        "carveout_bytes": trace.carveout_bytes,
        "va_bytes": trace.va_bytes,
        "slots": [
            {
                "name": s.name,
                "kind": s.kind.name.lower(),
                "dtype": s.dtype.name.lower(),
                "shape": list(s.shape),
                "strides": list(s.strides),
                "address": s.address,
                "bound": s.bound,
            }
            for s in trace.slots
        ],
        **{
            k: v.hex() if isinstance(v, bytes) else v
            for k, v in trace.meta.items()
            if k in ("security_version", "source_hash", "recorder", "kernel", "driver", "framework")
        },
    }


@click.command(
    "build",
    cls=GramophoneCommand,
    example="gramophone build raw.gtr -o net.gtr\ngramophone build g52.raw.gtr -o net.gtr --gpu mali_g71",
    help="Turn a raw recording into a trace worth signing.\n\nPasses, in order: " + ", ".join(PASSES) + ".",
)
@click.argument("raw", type=FILE)
@OUTPUT
@click.option(
    "--param",
    "parameters",
    type=Assignment(folders=True),
    multiple=True,
    help="Value of a parameter slot, or a folder with SLOT.npy files.",
)
@click.option(
    "--state",
    "states",
    type=Pair("INPUT=OUTPUT"),
    multiple=True,
    help="What a replay leaves in OUTPUT is the next one's INPUT; repeatable.",
)
@click.option(
    "--open",
    "open_slots",
    metavar="SLOT",
    multiple=True,
    help="Slot of --state that callers may set or read; repeatable. Without it the state is the trace's own.",
)
@click.option("--skip", metavar="PASS", multiple=True, help="Leave out a pass (again for more).")
@click.option("--keep-inputs", is_flag=True, help="Keep recorded inputs, for replays that are given none.")
@click.option(
    "--gpu",
    type=click.Choice(profile.names()),
    help="GPU that the trace is for, if not the recorded one: its rules say what changes.",
)
@click.option(
    "--optimise",
    type=click.Choice(["start", "size"]),
    default="start",
    show_default=True,
    help="What is to be small: the device's work at its start, or the trace, which then has byte planes.",
)
@click.option("--name", type=NAME, help="Name of the trace; default: the recording's.")
@click.option("--security-version", type=click.IntRange(0, 2**32 - 1), help="For the device's rollback counter.")
def build_command(
    raw: Path,
    output: Path,
    parameters: tuple[tuple[str | None, Path], ...],
    states: tuple[tuple[str, str], ...],
    open_slots: tuple[str, ...],
    skip: tuple[str, ...],
    keep_inputs: bool,
    gpu: str | None,
    optimise: str,
    name: str | None,
    security_version: int | None,
) -> Outcome:
    """See `help`."""
    files = assigned("parameter", parameters)
    if len(dict(states)) != len(states):
        raise UsageError("--state: an input is given twice")
    if open_slots and not states:
        raise UsageError("--open: is about slots of --state")
    data = read(raw)
    check_output(output)
    trace = Trace.parse(data, str(raw))
    source_hash = hashlib.sha256(data).digest()
    del data  # a network's is large
    changes: list[Applied] = []
    if gpu is not None and gpu != trace.gpu:
        with layout.naming(str(raw)):
            trace, changes = retarget(trace, gpu)
    values = load_all(trace, files, SlotKind.PARAMETER)
    steps: list[Step] = []

    def done(step: Step) -> None:
        steps.append(step)
        LOG.debug("%s: %d actions, %d bytes", step.name, step.actions, step.image_bytes)

    program = Program(trace)
    del trace
    with phase("running the passes"):
        try:
            with layout.naming(str(raw)):
                trace = build(
                    program,
                    skip=(*skip, *KEEP_INPUTS) if keep_inputs else skip,
                    parameters=values,
                    states=dict(states),
                    open_slots=open_slots,
                    progress=done,
                )
        except (DivergenceError, VgpuError) as error:  # passes run the trace
            raise GramophoneError(f"{raw}: {error}") from error
    del program
    trace.meta["source_hash"] = source_hash
    if name is not None:
        trace.meta["name"] = name
    if security_version is not None:
        trace.meta["security_version"] = security_version
    with phase("compressing"):
        result = trace.build(planes=optimise == "size")
    write(output, result)
    rows = [f"{'rule':28} {'places':>7}"] if changes else []
    rows += [f"{c.rule:28} {c.places:7}" for c in changes]
    rows += [f"{'pass':20} {'actions':>9} {'image bytes':>12} {'memory bytes':>12}"]
    rows += [
        f"{s.name:20} not done: {s.not_done}"
        if s.not_done
        else f"{s.name:20} {s.actions:9} {s.image_bytes:12} {s.memory_bytes:12}"
        for s in steps
    ]
    rows.append(
        f"{output}: {len(result)} bytes, {trace.jobs} jobs, {len(trace.actions)} actions, "
        f"carve-out {trace.carveout_bytes} bytes"
    )
    if operators := used(trace.actions):
        names = " ".join(f"--operator {OPERATORS[operator].name}" for operator in operators)
        rows.append(f"a device computes on its CPU, too: 'gramophone generate {names}'")
    codecs = [codec.name.lower() for codec in layout.linked_codecs(result)]
    if codecs:
        names = " ".join(f"--codec {codec}" for codec in codecs)
        rows.append(f"a device must decode its sections: 'gramophone generate {names}'")
    if missing := without_value(trace):
        rows.append(f"a replay must be given: {listed(missing)}")
    done_by = {"rules": [vars(c) for c in changes], "passes": [vars(s) for s in steps]}
    return Outcome({**facts(trace), "trace_bytes": len(result), "codecs": codecs, **done_by}, "\n".join(rows))
