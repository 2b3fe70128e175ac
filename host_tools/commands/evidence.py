# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone enrol`, `verify-log` and `verify-report`: what devices say of their replays, and is it true."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from host_tools.commands.framework import FILE, GramophoneCommand, Outcome, UsageError, warn
from host_tools.commands.streams import read
from host_tools.commands.traces import parse_trace, read_trace
from host_tools.runners.optee.measurement import core_measurement
from host_tools.support.elf import is_elf
from host_tools.support.files import write_atomically
from host_tools.support.tensors import Assignment, assigned, load_all
from signing import device_keys, keys
from signing.attestation import (
    NONCE_BYTES,
    Attestation,
    Expected,
    check_attestation,
    read_attestation,
    tensor_hashes,
)
from signing.envelope import split
from signing.log_checks import Checked, check_log
from signing.replay_log import Entry, Tail, head_hash, read_log, read_tail
from tee_replayer.generator import device
from trace_format.errors import GramophoneError, printable
from trace_format.schema import SIGNED_MAGIC, SlotKind
from trace_format.schema.log import LogKind
from trace_format.schema.report import Status
from trace_format.trace import Trace

SECRET, LOG_KEY, PUBLIC = "device.secret", "log.key", "device.pub.pem"
TAIL, BOOTS = "device.tail", "device.boots"  # which an emulated board adds
TRACE = click.option(
    "--trace", "traces", type=FILE, multiple=True, help="A trace that it may be about; repeatable."
)


class Nonce(click.ParamType[bytes]):
    """A verifier's nonce, in hexadecimal."""

    name = "HEX"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Its bytes."""
        try:
            nonce = bytes.fromhex(str(value))
        except ValueError:
            nonce = b""
        if len(nonce) not in NONCE_BYTES:
            self.fail(f"expected 8 to 64 bytes in hexadecimal, found {value!r}", param, ctx)
        return nonce


@click.command(
    cls=GramophoneCommand,
    example=(
        "gramophone enrol -o device-7\ngramophone enrol --secret fused.bin -o device-7\n"
        "gramophone enrol --huk fused-huk.bin -o device-8"
    ),
)
@click.option("-o", "--output", type=FILE, required=True, help="Folder to write; none of its files is replaced.")
@click.option("--secret", type=FILE, help="The device's secret, of 32 bytes; default: a new one.")
@click.option(
    "--huk", type=FILE, help="The hardware unique key of a device with OP-TEE, of 16 bytes: its secret follows."
)
def enrol(output: Path, secret: Path | None, huk: Path | None) -> Outcome:
    """Make the keys of a device with a replay log: its secret, and what verifiers get.

    device.secret is for the device alone. log.key authenticates the entries of its log; who has it can write
    entries, too. device.pub.pem verifies attestations, and is for everybody.
    """
    if secret and huk:
        raise UsageError("--secret and --huk exclude each other")
    value = read(secret) if secret else device_keys.new_secret()
    if huk:
        key = read(huk)
        value = device_keys.secret_of_huk(key, file=str(huk))
        if len(set(key)) == 1:
            warn(f"{huk}: {len(key)} times {key[0]:#04x}, as of a platform that has no key of its own")
    made = device_keys.derive(value, file=str(secret or ""))
    output.mkdir(exist_ok=True)
    files = {SECRET: (value, 0o600), LOG_KEY: (made.log, 0o600), PUBLIC: (made.public.pem(), 0o666)}
    for name in files:
        if (output / name).exists():
            raise GramophoneError(f"{output / name}: exists; what was enrolled with it would be lost")
    for name, (data, mode) in files.items():
        write_atomically(output / name, data, mode=mode, overwrite=False)
    return Outcome(
        {"folder": str(output), "files": list(files), "key_id": made.public.kid.hex()},
        f"{output}: {', '.join(files)}; attestation key {made.public.kid.hex()}",
    )


@click.command(
    "verify-log",
    cls=GramophoneCommand,
    example=(
        "gramophone verify-log replay.log --log-key device-7/log.key --tail device.tail --trace net.sgtr\n"
        "gramophone verify-log replay.log --report report.cbor --key device-7/device.pub.pem --nonce 4a6f...91"
    ),
)
@click.argument("log_file", metavar="LOG", type=FILE)
@click.option("--log-key", type=FILE, help="The device's log key, of 'gramophone enrol'.")
@click.option("--tail", "tail_file", type=FILE, help="Where the log ends, as the device keeps it.")
@click.option("--report", type=FILE, help="An attestation: it says where the log ended; with --key and --nonce.")
@click.option("--key", type=FILE, help="The device's public key (PEM), for --report.")
@click.option("--nonce", type=Nonce(), help="That the attestation was asked for, for --report.")
@TRACE
def verify_log_command(
    log_file: Path,
    log_key: Path | None,
    tail_file: Path | None,
    report: Path | None,
    key: Path | None,
    nonce: bytes | None,
    traces: tuple[Path, ...],
) -> Outcome:
    """Check that a replay log is the device's, whole and in order.

    Entries are proven by the log key, or without it by an attestation. Only a tail or an attestation shows that
    the last entries are there. Exit status 1: something is wrong; each thing is named with the entry.
    """
    if log_key is None and report is None:
        raise UsageError("expected --log-key or --report: nothing else proves an entry")
    if tail_file is not None and report is not None:
        raise UsageError("--tail and --report exclude each other: both say where the log ends")
    if (report is None) != (key is None) or (report is None) != (nonce is None):
        raise UsageError("--report, --key and --nonce belong together")
    entries = read_log(read(log_file), file=str(log_file))
    secret = device_keys.read_log_key(read(log_key), file=str(log_key)) if log_key else None
    tail: Tail | None = read_tail(read(tail_file), file=str(tail_file)) if tail_file else None
    if report is not None and key is not None and nonce is not None:
        attested = read_attestation(read(report), file=str(report))
        public = keys.load_public_key(read(key), file=str(key))
        for name, text in check_attestation(attested, public, Expected(nonce)):
            if name != "no-replay":  # it says where the log ends all the same
                raise GramophoneError(f"{report}: {name}: {text}")
        tail = attested.tail
    if tail is None:
        warn(f"{log_file}: without --tail or --report nobody can tell whether the last entries are missing")
    known = {head_hash(_unsigned(path)): str(path) for path in traces}
    checked = check_log(entries, key=secret, tail=tail, traces=known or None)
    return Outcome(
        _log_data(log_file, checked, tail, known), _log_text(log_file, checked, known), ok=not checked.findings
    )


def _log_data(file: Path, checked: Checked, tail: Tail | None, traces: dict[bytes, str]) -> dict[str, Any]:
    return {
        "file": str(file),
        "findings": [
            {
                "fault": found.fault.value,
                "position": found.position,
                "sequence": found.sequence,
                "text": found.text,
            }
            for found in checked.findings
        ],
        "tail": tail and {"entries": tail.entries, "boots": tail.boots, "hash": tail.hash.hex()},
        "entries": [_entry_data(entry, traces) for entry in checked.proven],
    }


def _entry_data(entry: Entry, traces: dict[bytes, str]) -> dict[str, Any]:
    values = entry.values
    return {
        "position": entry.position,
        "sequence": entry.sequence,
        "boot": entry.boot,
        "kind": entry.kind.name.lower() if entry.kind else "unknown",
        "status": _status(values["status"]),
        "retries": values["retries"],
        "security_version": values["security_version"],
        "subject": entry.subject.hex(),
        "trace_id": bytes(values["trace_id"]).hex(),
        "trace": traces.get(entry.subject),
        "inputs": bytes(values["inputs"]).hex(),
        "outputs": bytes(values["outputs"]).hex(),
    }


def _status(value: int) -> str:
    return next((status.name for status in Status if status == value), f"{value:#010x}")


def _log_text(file: Path, checked: Checked, traces: dict[bytes, str]) -> str:
    proven = checked.proven
    lines = [f"{file}: {len(proven)} entries of {len({entry.boot for entry in proven})} boots are the device's"]
    counts: Counter[tuple[bytes, LogKind | None]] = Counter()
    names: dict[bytes, str] = {}
    for entry in proven:
        if entry.kind is not LogKind.BOOT:
            counts[entry.subject, entry.kind] += 1
            given = traces.get(entry.subject)
            identity = f"trace {bytes(entry.values['trace_id']).hex()}" + (f" ({given})" if given else "")
            names[entry.subject] = identity if any(entry.subject) else "without a good signature"
    for subject, name in names.items():
        told = [f"{n} {word}" for kind, word in _WORDS.items() if (n := counts[subject, kind])]
        lines.append(f"  {printable(name)}: {', '.join(told)}")
    lines += [f"{found.fault.value}: {found.text}" for found in checked.findings]
    return "\n".join([*lines, "REFUSED" if checked.findings else "verified"])


_WORDS = {LogKind.LOAD: "loaded", LogKind.REPLAY: "replayed", LogKind.REFUSAL: "refused"}


def _unsigned(path: Path) -> bytes:
    """The bytes of the trace in a file, signed or not."""
    data = read(path)
    parse_trace(data, str(path))
    return bytes(split(data).trace) if data.startswith(SIGNED_MAGIC) else data


@click.command(
    "verify-report",
    cls=GramophoneCommand,
    example=(
        "gramophone verify-report report.cbor --key device-7/device.pub.pem --nonce 4a6f...91 \\\n"
        "    --firmware-image out/firmware.bin --trace net.sgtr --input data=digit.npy --expect prob=prob.npy"
    ),
)
@click.argument("report", type=FILE)
@click.option("--key", type=FILE, required=True, help="The device's public key (PEM).")
@click.option("--nonce", type=Nonce(), required=True, help="That the attestation was asked for.")
@click.option(
    "--firmware-image", "firmware", type=FILE, help="The firmware.bin, or OP-TEE's tee.elf, that must have run."
)
@TRACE
@click.option(
    "--input",
    "inputs",
    type=Assignment(folders=True),
    multiple=True,
    help="Value of an input slot or parameter slot that the replay was given; repeatable.",
)
@click.option(
    "--expect",
    "expected",
    type=Assignment(folders=True),
    multiple=True,
    help="What an output must be, to the bit; repeatable, for all outputs.",
)
def verify_report_command(
    report: Path,
    key: Path,
    nonce: bytes,
    firmware: Path | None,
    traces: tuple[Path, ...],
    inputs: tuple[tuple[str | None, Path], ...],
    expected: tuple[tuple[str | None, Path], ...],
) -> Outcome:
    """Check what a device attests: that this firmware and this trace gave these outputs, for this nonce.

    Exit status 1: it is an attestation, but not the device's, not for this nonce, or not of what the options name.
    """
    given, wanted = assigned("input", inputs), assigned("expected output", expected)
    if wanted and len(traces) != 1:
        raise UsageError("--expect needs one --trace, which says what slots there are")
    if given and not wanted:
        raise UsageError("--input needs --expect: both are hashed by the slots of the trace")
    attested = read_attestation(read(report), file=str(report))
    public = keys.load_public_key(read(key), file=str(key))
    hashes: dict[str, bytes] = {}
    if firmware is not None:
        hashes |= measured(firmware)
    if wanted:
        trace, _ = read_trace(traces[0])
        hashes |= _tensors(trace, given, wanted)
    heads = {head_hash(_unsigned(path)) for path in traces} or None
    findings = list(check_attestation(attested, public, Expected(nonce, traces=heads, **hashes)))
    claims = _claims(attested)
    checked = ["key", "nonce", *(["traces"] if heads else []), *sorted(hashes)]
    data = {
        "file": str(report),
        "key_id": attested.kid.hex(),
        "findings": [{"fault": name, "text": text} for name, text in findings],
        "claims": claims,
        "checked": checked,
    }
    lines = [f"{name:16} {value}" for name, value in claims.items()]
    lines += [f"{name}: {text}" for name, text in findings]
    verdict = "REFUSED" if findings else f"verified: {', '.join(checked)}"
    return Outcome(data, "\n".join([*lines, verdict]), ok=not findings)


def measured(path: Path) -> dict[str, bytes]:
    """Hashes of a firmware, and of the constant in it that says whose traces it takes.

    Of OP-TEE's core, as tee.elf, what its pseudo-TA hashes: `host_tools.runners.optee.measurement`.

    Raises:
        GramophoneError: no such constant, or several; an ELF file that is not OP-TEE's core.
        OSError: the file cannot be read.
    """
    data = read(path)
    found = list(device.find(data))
    if len(found) != 1:
        raise GramophoneError(f"{path}: a firmware: expected one constant 'gr_device', found {len(found)}")
    at = found[0][0]
    return {
        "firmware": core_measurement(data, str(path)) if is_elf(data) else hashlib.sha256(data).digest(),
        "policy": hashlib.sha256(data[at : at + device.SIZE]).digest(),
    }


def _tensors(trace: Trace, inputs: dict[str, Path], outputs: dict[str, Path]) -> dict[str, bytes]:
    values = load_all(trace, inputs, SlotKind.INPUT, SlotKind.PARAMETER) | load_all(
        trace, outputs, SlotKind.OUTPUT
    )
    first, second = tensor_hashes(trace, values)
    return {"inputs": first, "outputs": second}


def _claims(attested: Attestation) -> dict[str, Any]:
    def shown(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value.hex() if isinstance(value, bytes) else value for name, value in items}

    return {**shown(attested.claims.items()), "status": _status(attested.claims["status"])}
