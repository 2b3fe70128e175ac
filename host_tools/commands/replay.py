# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone replay`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import click
from msgspec import UNSET, UnsetType

from host_tools.api.replaying import NO_SHADERS, refusal
from host_tools.audit.verdicts import rules_of_report
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError, warn
from host_tools.commands.option_rules import excludes, requires
from host_tools.commands.outputs import (
    Expected,
    ExpectedFacts,
    OutputFacts,
    Shown,
    compare,
    read_expected,
    read_labels,
    show,
)
from host_tools.commands.replay_jobs import Asked, Compared, Refused, Until, look
from host_tools.commands.replay_request import Files, check_options, prepare, run_options
from host_tools.commands.verify_report import Nonce
from host_tools.record.tolerances import TOLERANCE
from host_tools.runners.replay import NONE, Instructions, ReplayResult, Tensor
from host_tools.support.files import check_writable, write_atomically
from host_tools.support.progress import phase
from host_tools.support.results import Count, Result, one_of
from host_tools.support.tensors import (
    Assignment,
    assigned,
    npy,
    slot_of,
)
from signing.replay_log import ENTRY_BYTES
from trace_format import limits
from trace_format.errors import listed, printable
from trace_format.files import read_file
from trace_format.operators import counted
from trace_format.schema import SlotKind


def _replays(repeat: int | None, series: Mapping[str, Tensor]) -> int:
    """How many replays there are; UsageError where --repeat and the series do not agree."""
    counts = {f"--series {name}": len(array) for name, array in series.items()}
    counts |= {"--repeat": repeat} if repeat is not None else {}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{what}: {count}" for what, count in counts.items())
        raise UsageError(f"the numbers of replays differ: {said}")
    return next(iter(counts.values()), 1)


class Replayed(Result):
    """What came of a replay.

    Attributes:
        compute: Whether the virtual GPU executes shaders: with none, outputs are not results.
        instructions: Of the device's CPU.
        log_bytes: Entries that the device added to its replay log.
        attestation_bytes: 0: none was asked for, or none given.
        error: Why the device refused it.
        rules: Ids of the rules (docs/RULES.md) that its reason may be about, nearest first.
    """

    device: str
    compute: Annotated[str, one_of("full", "none")]
    jobs: Count
    actions: Count
    retries: Count
    outputs: dict[str, OutputFacts]
    expected: dict[str, ExpectedFacts]
    instructions: Instructions | None
    trace_bytes: Count
    secure_bytes: Count
    log_bytes: Count
    attestation_bytes: Count
    error: str | UnsetType = UNSET
    rules: list[str] | UnsetType = UNSET


@click.command(
    "replay",
    cls=GramophoneCommand,
    reads_traces=True,
    example=(
        "gramophone replay net.sgtr --key pub.pem --input data=digit.npy -o prob=prob.npy --on qemu\n"
        "gramophone replay net.sgtr --key pub.pem --input data=cat.npy --top 5 --labels words.txt\n"
        "gramophone replay net.sgtr --key pub.pem --input data=x.npy --expect prob=y.npy --tolerance 1e-5\n"
        "gramophone replay net.sgtr --key pub.pem --input data=x.npy --until 12 --dump after12"
    ),
    groups={
        "Values in": ("--input", "--param", "--series"),
        "Values out": ("-o", "--each", "--top", "--labels", "--expect", "--tolerance"),
        "Where it runs": ("--on", "--normal-world", "--gpu", "--firmware", "--timeout", "--repeat", "--network"),
        "Single jobs": ("--until", "--dump", "--compare"),
        "Trust": ("--key", "--min-security-version", "--device-id", "--flash", "--clock"),
        "Evidence": ("--store", "--entries", "--nonce", "--attestation"),
        "Sources": ("--bearssl", "--aws-lc"),
    },
)
@run_options
@click.option(
    "-o",
    "--output",
    "outputs",
    type=Assignment(),
    multiple=True,
    help="File for an output slot; repeatable.",
)
@click.option(
    "--expect",
    "expected",
    type=Assignment(),
    multiple=True,
    help="Expected value of an output; a difference is exit status 1. Repeatable.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    default=TOLERANCE,
    show_default=True,
    help="Largest difference from --expect, relative to the largest value.",
)
@click.option("--top", type=click.IntRange(1), metavar="N", help="Show the N largest values of each output.")
@click.option("--labels", type=FILE, help=("File with a name per line for an output's elements. Requires --top."))
@click.option("--repeat", type=click.IntRange(1, 1_000_000), help="Replays in a row; default: 1, or as --series.")
@click.option(
    "--series",
    type=Assignment(),
    multiple=True,
    help="Values of an input slot in consecutive replays, along the first dimension; repeatable.",
)
@click.option(
    "--each",
    type=Assignment(),
    multiple=True,
    help="File for an output slot's values after each replay, along the first dimension; repeatable.",
)
@click.option("--network", metavar="NAME", help="Network of a joint trace to replay. Requires --on vgpu.")
@click.option(
    "--until",
    type=click.IntRange(0),
    metavar="JOB",
    help="Stop after this job, by its number in `report`. Requires --dump.",
)
@click.option(
    "--dump",
    type=FILE,
    help=("Folder for the memory that jobs have written, as .npy files by layer. Requires --until."),
)
@click.option(
    "--compare", "other", type=FILE, help=("Trace to compare with: name the first job that writes other bytes.")
)
@click.option("--store", type=FILE, help="Folder of 'enrol' with the secret of an emulated device.")
@click.option(
    "--flash",
    type=FILE,
    help="Flash of an emulated device with a rollback store; created if missing. Requires --firmware.",
)
@click.option(
    "--clock",
    type=click.DateTime(("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S")),
    help="Time of an emulated device's clock (UTC). Requires --firmware.",
)
@click.option(
    "--entries",
    type=FILE,
    help="File to append the log's new entries to. Requires --store.",
)
@click.option("--nonce", type=Nonce(), help=("Ask the device for an attestation on this nonce. Requires --store."))
@click.option("--attestation", type=FILE, help="File for the attestation. Requires --nonce.")
@requires("--labels", "--top")
@requires("--entries", "--store")
@requires("--nonce", "--attestation")
@requires("--attestation", "--nonce")
@requires("--nonce", "--store")
@requires("--nonce", "--entries")
@requires("--until", "--dump")
@requires("--dump", "--until")
@excludes("--until", "--compare")
def replay_command(
    signed: Path,
    key: Path,
    inputs: Files,
    parameters: Files,
    outputs: Files,
    expected: Files,
    tolerance: float,
    top: int | None,
    labels: Path | None,
    repeat: int | None,
    series: Files,
    each: Files,
    network: str | None,
    until: int | None,
    dump: Path | None,
    other: Path | None,
    runner: str,
    store: Path | None,
    flash: Path | None,
    clock: datetime | None,
    entries: Path | None,
    nonce: bytes | None,
    attestation: Path | None,
    firmware: Path | None,
    **where: Any,
) -> Outcome[Replayed | Until | Compared | Refused]:
    """Verify and replay a signed trace on an emulated device.

    --on vgpu replays the trace on the virtual GPU alone. Outputs of up to 16 elements are printed. For boxes,
    only found boxes are printed (16), written and compared; a device pads its output with zeros. Exit status 1:
    the device refused the trace or could not replay it, an output differs from --expect, or --compare finds a
    difference.
    """
    targets, files = assigned("output", outputs), assigned("expected output", expected)
    now = None if clock is None else int(clock.replace(tzinfo=UTC).timestamp())
    has_log = None if store is None else entries is not None
    where |= {"firmware": firmware, "network": network, "store": store, "has_log": has_log, "flash": flash}
    on, options = check_options(runner, clock=now, nonce=nonce, **where)
    _check_evidence(firmware, store, (entries, attestation))
    asked = Asked(until, dump, other)
    if asked.is_any:
        given = {"--output": outputs, "--expect": expected, "--series": series, "--each": each, "--repeat": repeat}
        asked.check(runner, [name for name, value in given.items() if value])
    _check_features(options, firmware, flash)
    earlier = read_file(entries, limits.LOG_BYTES) if entries is not None and entries.exists() else b""
    prepared = prepare(signed, key, inputs, parameters, on, options, series)
    if asked.is_any:
        return look(asked, prepared)
    every = assigned("output", each)
    if both := sorted(every.keys() & targets.keys()):
        raise UsageError(
            f"--each, --output: {listed(both)} is written after each replay or after the last, not both"
        )
    wanted, shown = {}, Shown(top)
    if prepared.trace is not None:
        for name, path in (targets | every).items():
            slot_of(prepared.trace, name, SlotKind.OUTPUT)
            check_writable(path)
        wanted = read_expected(prepared.trace, files)
        boxes = frozenset(counted(prepared.trace.actions, prepared.trace.slots))
        shown = Shown(top, read_labels(labels, prepared.trace) if labels else None, boxes)
    more = {"repeat": _replays(repeat, prepared.options.get("series", {}))}
    with phase(f"replaying on {runner}"):
        result = prepared.replay(**more, **({"each": frozenset(every)} if every else {}))
    if entries is not None:
        write_atomically(entries, earlier + result.evidence.entries)
    if attestation is not None and result.evidence.attestation:
        write_atomically(attestation, result.evidence.attestation)
    written = {}
    for name, path in (targets | every).items() if result.ok else ():
        write_atomically(path, npy(result.outputs[name]))
        written[name] = str(path)
    compared = compare(result.outputs, wanted, tolerance) if result.ok else []
    if result.ok and result.compute == NONE:
        warn(NO_SHADERS)
    good = result.ok and all(row.ok for row in compared)
    return Outcome(_json(result, written, shown, compared), _text(result, written, shown, compared), ok=good)


def _check_features(options: Mapping[str, Any], firmware: Path | None, flash: Path | None) -> None:
    """UsageError: an option needs firmware with a feature; OSError: the flash's image cannot be written."""
    for option, feature in (("flash", "store"), ("clock", "clock")):
        if option in options and firmware is None:
            raise UsageError(
                f"--{option} needs --firmware, a folder of 'generate' with the feature {feature}, after make"
            )
    if flash is not None and not flash.exists():
        check_writable(flash)


def _check_evidence(firmware: Path | None, store: Path | None, files: Iterable[Path | None]) -> None:
    """UsageError: a log has no firmware or no secret; OSError: one of its files cannot be written."""
    if store is None:
        return
    if firmware is None:
        raise UsageError(
            "--store needs --firmware, a folder of 'generate' with evidence or encryption, after make"
        )
    if not store.is_dir():
        raise UsageError(f"--store {store}: expected a folder that 'gramophone enrol' wrote, found none")
    for path in files:
        if path is not None:
            check_writable(path)


def _json(result: ReplayResult, written: dict[str, str], shown: Shown, compared: list[Expected]) -> Replayed:
    return Replayed(
        device=result.device,
        compute=result.compute,
        jobs=result.jobs,
        actions=result.actions,
        retries=result.retries,
        outputs={name: shown.data(name, array, written.get(name)) for name, array in result.outputs.items()},
        expected={row.name: row.data() for row in compared},
        instructions=result.instructions,
        trace_bytes=result.trace_bytes,
        secure_bytes=result.secure_bytes,
        log_bytes=len(result.evidence.entries),
        attestation_bytes=len(result.evidence.attestation),
        error=UNSET if result.ok else result.error,
        rules=UNSET if result.ok else [rule.id for rule in rules_of_report(result.report)],
    )


def _text(result: ReplayResult, written: dict[str, str], shown: Shown, compared: list[Expected]) -> str:
    if not result.ok:
        return refusal(result)
    lines = [
        f"{result.device}: {result.jobs} jobs, {result.actions} actions, {result.retries} retries, "
        f"trace {result.trace_bytes} bytes, secure memory {result.secure_bytes} bytes"
    ]
    if result.instructions:
        n = result.instructions
        lines.append(f"instructions: verify {n.verify:,}, load {n.load:,}, replay {n.replay:,}")
    if said := result.evidence.entries:
        signed = f", attestation {len(result.evidence.attestation)} bytes" if result.evidence.attestation else ""
        lines.append(f"log: {len(said) // ENTRY_BYTES} entries{signed}")
    for name, array in result.outputs.items():
        where = f" -> {written[name]}" if name in written else ""
        lines.append(f"{printable(name)}: {array.dtype.name} {list(array.shape)}{where}")
        lines += show(name, array, shown)
    return "\n".join(lines + [str(row) for row in compared])
