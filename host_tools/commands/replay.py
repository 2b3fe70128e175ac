# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone replay`, and what it shares with `bench`: a signed trace, its tensors, what it runs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from host_tools.audit.verdicts import rules_of_report
from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError, warn
from host_tools.commands.generate import AWS_LC, BEARSSL, DEVICE_ID, KEY, MIN_VERSION, device_key
from host_tools.commands.outputs import Expected, Shown, compare, read_expected, read_labels, show
from host_tools.commands.replay_jobs import Asked, look
from host_tools.commands.streams import read
from host_tools.commands.verify_report import Nonce
from host_tools.record.differences import TOLERANCE
from host_tools.runners import LINUX, NORMAL_WORLDS, OPTEE, WITHOUT_OPTEE, run, runner_of
from host_tools.runners.needs import what_helps
from host_tools.runners.replay import NONE, ReplayRequest, ReplayResult, Tensor
from host_tools.support.files import check_writable, write_atomically
from host_tools.support.progress import phase
from host_tools.support.tensors import (
    Assignment,
    assigned,
    boxes_found,
    load_all,
    load_series,
    npy,
    slot_of,
    without_value,
)
from signing.delivery import Delivery
from signing.replay_log import ENTRY_BYTES
from signing.trust_verdict import Judge
from signing.verify import Verdict, verify_by
from trace_format import layout, limits
from trace_format.errors import EncryptedError, GramophoneError, SlotError, TraceError, listed, printable
from trace_format.files import read_file
from trace_format.operators import counted
from trace_format.schema import SlotKind
from trace_format.trace import Trace

Files = tuple[tuple[str | None, Path], ...]
NO_SHADERS = "this virtual GPU runs no shaders; outputs hold what was in memory, not results"


def run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `replay` and `bench` take: the trace, whose it is, its tensors, and what it runs on."""
    for option in reversed(
        (
            click.argument("signed", type=FILE),
            KEY,
            click.option(
                "--input",
                "inputs",
                type=Assignment(folders=True),
                multiple=True,
                help="Value of an input slot, or a folder with SLOT.npy files; repeatable.",
            ),
            click.option(
                "--param",
                "parameters",
                type=Assignment(folders=True),
                multiple=True,
                help="Value of a parameter slot (weights), or a folder with SLOT.npy files; repeatable.",
            ),
            click.option(
                "--on",
                "runner",
                type=click.Choice((*WITHOUT_OPTEE, OPTEE, LINUX)),
                default="vgpu",
                show_default=True,
                help="What to run on.",
            ),
            click.option(
                "--normal-world",
                type=click.Choice(tuple(NORMAL_WORLDS)),
                help="Client of OP-TEE: a small program (the default), or Debian's Linux with gramophone-tee.",
            ),
            click.option("--gpu", help="Virtual GPU, with its variant; default: the one that the trace is for."),
            click.option(
                "--firmware",
                type=FILE,
                help="Folder of `generate`, after make where it has one; default: for this key.",
            ),
            click.option(
                "--timeout",
                type=click.FloatRange(1),
                metavar="SECONDS",
                help="Time limit of a boot; default: the runner's own.",
            ),
            MIN_VERSION,
            DEVICE_ID,
            BEARSSL,
            AWS_LC,
        )
    ):
        function = option(function)
    return function


@dataclass
class Prepared:
    """A trace with all that a replay of it takes."""

    runner: str
    request: ReplayRequest

    @property
    def trace(self) -> Trace | None:
        """What is replayed; None where it is damaged."""
        return self.request.delivery.trace

    @property
    def options(self) -> frozenset[str]:
        """What the runner takes besides what every runner takes."""
        return runner_of(self.runner).OPTIONS

    def replay(self) -> ReplayResult:
        """Replay, with as many rows of boxes as were found.

        Where the device has too little memory, or an operator that it may not have, the error says what helps.
        """
        result = run(self.runner, self.request)
        if self.trace is None:
            return result
        if result.ok:
            return replace(result, outputs=boxes_found(self.trace, result.outputs))
        hint = what_helps(self.request.delivery, result.report)
        return replace(result, error=f"{result.error}; {hint}") if hint else result


def prepare(
    signed: Path,
    key: Path,
    inputs: Files,
    parameters: Files,
    runner: str,
    normal_world: str | None,
    gpu: str | None,
    firmware: Path | None,
    timeout: float | None,
    min_security_version: int,
    device_id: bytes,
    bearssl: Path | None,
    aws_lc: Path | None,
    series: Files = (),
) -> Prepared:
    """Read what `run_options` name, and what --series names, and check that it fits together."""
    files = assigned("input", inputs), assigned("parameter", parameters)
    if normal_world and runner != OPTEE:
        raise UsageError(f"--normal-world cannot be used with --on {runner}: only optee has one")
    options = runner_of(runner).OPTIONS
    if firmware is not None and "firmware" not in options:
        raise UsageError(f"--firmware cannot be used with --on {runner}: no firmware runs there")
    if timeout is not None and "timeout_s" not in options:
        raise UsageError(f"--timeout cannot be used with --on {runner}: no machine boots there")
    delivery = Delivery(read(signed))
    trusted = device_key(key)
    found = verify_by(delivery, trusted, Judge(), file=str(signed))
    if found.verdict == Verdict.MALFORMED:  # not a signed trace at all; refusing one is the device's part
        raise GramophoneError(found.reason)
    try:
        with layout.naming(str(signed)):
            delivery.parse()
    except EncryptedError:
        raise  # nobody knows what its slots take
    except TraceError:
        pass  # refusing it is the device's part
    trace = delivery.trace
    tensors, all_replays = {}, {}
    if trace is not None:
        names = assigned("input", series).items()
        all_replays = {name: load_series(path, slot_of(trace, name, SlotKind.INPUT)) for name, path in names}
        tensors = load_all(trace, files[0], SlotKind.INPUT) | load_all(trace, files[1], SlotKind.PARAMETER)
        if found.ok:  # what is not verified, the device refuses
            _check_complete(signed, trace, {*tensors, *all_replays})
    world = NORMAL_WORLDS[normal_world or "bare-metal"] if runner == OPTEE else runner
    request = ReplayRequest(
        delivery,
        trusted,
        tensors,
        gpu,
        1,
        min_security_version,
        bearssl,
        aws_lc,
        device_id=device_id,
        firmware=firmware,
        timeout_s=timeout,
        series=all_replays,
    )
    return Prepared(world, request)


def _check_complete(signed: Path, trace: Trace, given: set[str]) -> None:
    """SlotError naming the slots without a value, and the option of each kind."""
    missing = {
        option: [name for name in without_value(trace, kind) if name not in given]
        for option, kind in (("--input", SlotKind.INPUT), ("--param", SlotKind.PARAMETER))
    }
    wanting = [f"{listed(names)} ({option})" for option, names in missing.items() if names]
    if wanting:
        raise SlotError(
            f"{signed}: no value for {' and '.join(wanting)}: give SLOT=FILE.npy for each, or a folder with "
            "SLOT.npy files; 'gramophone build --param' makes parameters a part of the trace"
        )


def _replays(repeat: int | None, series: Mapping[str, Tensor]) -> int:
    """How many replays there are; UsageError where --repeat and the series do not agree."""
    counts = {f"--series {name}": len(array) for name, array in series.items()}
    counts |= {"--repeat": repeat} if repeat is not None else {}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{what}: {count}" for what, count in counts.items())
        raise UsageError(f"the numbers of replays differ: {said}")
    return next(iter(counts.values()), 1)


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
        "Where it runs": ("--on", "--normal-world", "--gpu", "--firmware", "--timeout", "--repeat"),
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
    help="Where to write an output slot; repeatable.",
)
@click.option(
    "--expect",
    "expected",
    type=Assignment(),
    multiple=True,
    help="What an output must be; if it is not, the exit status is 1. Repeatable.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    default=TOLERANCE,
    show_default=True,
    help="Largest difference to what is expected, relative to the largest value.",
)
@click.option("--top", type=click.IntRange(1), metavar="N", help="Show the N largest values of each output.")
@click.option("--labels", type=FILE, help="Names of an output's elements, one a line, for --top.")
@click.option("--repeat", type=click.IntRange(1, 1_000_000), help="Replays in a row; default: 1, or as --series.")
@click.option(
    "--series",
    type=Assignment(),
    multiple=True,
    help="An input slot's values in replays that follow one another, along the first dimension; repeatable.",
)
@click.option(
    "--each",
    type=Assignment(),
    multiple=True,
    help="Where to write what an output slot was after each replay, in the same form; repeatable.",
)
@click.option(
    "--until",
    type=click.IntRange(0),
    metavar="JOB",
    help="Stop after this job, as `report` numbers them; with --dump.",
)
@click.option("--dump", type=FILE, help="Folder for what jobs up to --until have written, as .npy files by layer.")
@click.option("--compare", "other", type=FILE, help="Name the first job that writes something else in this trace.")
@click.option("--store", type=FILE, help="What an emulated device keeps, such as its secret: a folder of 'enrol'.")
@click.option(
    "--flash",
    type=FILE,
    help="Flash of an emulated device with a rollback store; made if there is none. With --firmware.",
)
@click.option(
    "--clock",
    type=click.DateTime(("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S")),
    help="What the clock of an emulated device says (UTC). With --firmware.",
)
@click.option(
    "--entries",
    type=FILE,
    help="Append the log's new entries to this file; with --store, if there is a log.",
)
@click.option("--nonce", type=Nonce(), help="Ask the device for an attestation on this nonce; with --store.")
@click.option("--attestation", type=FILE, help="Where to write the attestation; with --nonce.")
def replay_command(
    outputs: Files,
    expected: Files,
    tolerance: float,
    top: int | None,
    labels: Path | None,
    repeat: int | None,
    series: Files,
    each: Files,
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
    **options: Any,
) -> Outcome:
    """Verify, load and replay a signed trace, in the secure world of an emulated device or on the virtual GPU.

    Outputs of up to 16 elements are printed. Of boxes, only those that were found are printed (16), written and
    compared; a device's own output goes on with rows of zeros. Exit status 1: the device refused the trace or
    could not replay it, or an output is not what is expected, or --compare finds a difference.
    """
    targets, files = assigned("output", outputs), assigned("expected output", expected)
    if labels is not None and top is None:
        raise UsageError("--labels names what --top shows: give both")
    _check_evidence(runner, options["firmware"], store, entries, nonce, attestation)
    asked = Asked(until, dump, other)
    if asked.is_any:
        given = {"--output": outputs, "--expect": expected, "--series": series, "--each": each, "--repeat": repeat}
        asked.check(runner, [name for name, value in given.items() if value])
    for name, is_given in (("flash", flash is not None), ("clock", clock is not None)):
        _check_device(runner, options["firmware"], name, is_given)
    if flash is not None and not flash.exists():
        check_writable(flash)
    now = None if clock is None else int(clock.replace(tzinfo=UTC).timestamp())
    earlier = read_file(entries, limits.LOG_BYTES) if entries is not None and entries.exists() else b""
    prepared = prepare(runner=runner, series=series, **options)
    if asked.is_any:
        return look(asked, options["signed"], prepared.request)
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
    count = _replays(repeat, prepared.request.series)
    prepared.request = replace(prepared.request, repeat=count, each=frozenset(every), nonce=nonce)
    has_log = store is None or entries is not None
    prepared.request = replace(prepared.request, store=store, has_log=has_log, flash=flash, clock=now)
    with phase(f"replaying on {runner}"):
        result = prepared.replay()
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


def _check_evidence(
    runner: str,
    firmware: Path | None,
    store: Path | None,
    entries: Path | None,
    nonce: bytes | None,
    attestation: Path | None,
) -> None:
    """UsageError for options of a log that do not fit together; OSError for files that cannot be written."""
    if entries is not None and store is None:
        raise UsageError("--entries needs --store, where the device's secret is")
    if (nonce is None) != (attestation is None):
        raise UsageError("--nonce and --attestation belong together")
    if nonce is not None and store is None:
        raise UsageError("--nonce needs --store, where the device's secret is")
    if nonce is not None and entries is None:
        raise UsageError("--nonce needs --entries: attestations are of firmware with a replay log, which goes on")
    if store is None:
        return
    if "store" not in runner_of(runner).OPTIONS:
        where = (
            "'gramophone-tee replay --entries' does it" if runner == OPTEE else "no firmware with a log runs there"
        )
        raise UsageError(f"--store cannot be used with --on {runner}: {where}")
    if firmware is None:
        raise UsageError(
            "--store needs --firmware, a folder of 'generate --replay-log' (or --decrypts) after make"
        )
    if not store.is_dir():
        raise UsageError(f"--store {store}: expected a folder that 'gramophone enrol' wrote, found none")
    for path in (entries, attestation):
        if path is not None:
            check_writable(path)


def _check_device(runner: str, firmware: Path | None, name: str, is_given: bool) -> None:
    """UsageError for flash or clock where there is none, or nothing that uses it."""
    if not is_given:
        return
    if name not in runner_of(runner).OPTIONS:
        raise UsageError(f"--{name} cannot be used with --on {runner}: no firmware that uses it runs there")
    if firmware is None:
        chosen = "--rollback-store" if name == "flash" else "--clock"
        raise UsageError(f"--{name} needs --firmware, a folder of 'generate {chosen}' after make")


def _json(
    result: ReplayResult, written: dict[str, str], shown: Shown, compared: list[Expected]
) -> dict[str, object]:
    counts = result.instructions
    found: dict[str, object] = {
        "device": result.device,
        "compute": result.compute,
        "jobs": result.jobs,
        "actions": result.actions,
        "retries": result.retries,
        "outputs": {
            name: {
                "file": written.get(name),
                "shape": list(array.shape),
                "dtype": array.dtype.name,
                **shown.data(name, array),
            }
            for name, array in result.outputs.items()
        },
        "expected": {row.name: row.data() for row in compared},
        "instructions": counts and {"verify": counts.verify, "load": counts.load, "replay": counts.replay},
        "trace_bytes": result.trace_bytes,
        "secure_bytes": result.secure_bytes,
        "log_bytes": len(result.evidence.entries),
        "attestation_bytes": len(result.evidence.attestation),
    }
    if not result.ok:
        found |= {"error": result.error, "rules": [rule.id for rule in rules_of_report(result.report)]}
    return found


def outcome(result: ReplayResult) -> str:
    """A replay that did not go through, in words: a trace that met a fault of the GPU was not refused."""
    return "accepted, then failed" if result.report.is_fault else "refused"


def _text(result: ReplayResult, written: dict[str, str], shown: Shown, compared: list[Expected]) -> str:
    if not result.ok:
        rules = " or ".join(rule.id for rule in rules_of_report(result.report))
        return f"{outcome(result)} on {result.device}: {result.error}" + (f" [{rules}]" if rules else "")
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
