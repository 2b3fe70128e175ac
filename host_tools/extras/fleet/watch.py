# SPDX-License-Identifier: BSD-2-Clause
"""Verify what has been collected of each enrolled device, one after the other, as streams.

What is wrong with one device never stops the others. The folder of enrolled devices is the operator's and trusted;
that of the logs is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.fleet.pieces import Collected, Piece, Pieces, collected, magic_of
from host_tools.extras.fleet.places import Place, StoreError
from host_tools.extras.fleet.rows import Rows
from host_tools.support.progress import phase
from signing import device_keys, key_files
from signing.attestation import Expected, check_attestation, read_attestation
from signing.log_runs import MOST
from signing.long_log import judge_log
from signing.replay_log import ENTRY_BYTES, Tail, read_tail
from trace_format import limits
from trace_format.errors import GramophoneError, sentence
from trace_format.files import read_file
from trace_format.schema.log import LOG_MAGIC

TAIL, NONCE = "device.tail", "nonce"  # beside the keys of an enrolled device


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a device's log.

    Attributes:
        fault: a fault of `signing.log_checks`, one of `check_attestation`, or `damaged`: something cannot be read;
            `no-proof`: there is nothing that proves entries.
        text: a sentence.
        file: where; None: in none.
        sequence: number of the entry, or of the first missing one; None where it is not known.
    """

    fault: str
    text: str
    file: str | None = None
    sequence: int | None = None


@dataclass
class Device:
    """What was found out of one device.

    Attributes:
        name: of its folder.
        files: how many pieces of its log there are.
        has_end: whether it is known where its log ended.
        problems: what is wrong.
    """

    name: str
    files: int = 0
    has_end: bool = False
    problems: list[Problem] = field(default_factory=list)


def watch(logs: Place, enrolled: Path, rows: Rows) -> tuple[list[Device], list[PurePosixPath]]:
    """Verify the logs of all enrolled devices, and add their entries to `rows`.

    Args:
        logs: where logs and attestations were collected.
        enrolled: folder with a folder for each device: log.key or device.pub.pem of `gramophone enrol`, and where
            there are, device.tail and the nonce that the newest attestation was asked for, in hexadecimal.
        rows: gets the entries that are proven.

    Returns:
        The devices by their names, and files that are of none of them.

    Raises:
        GramophoneError: no device is enrolled, or an object store cannot be used (StoreError).
        OSError: a folder cannot be read.
    """
    names = sorted(
        item.name
        for item in enrolled.iterdir()
        if (item / device_keys.LOG_KEY).exists() or (item / device_keys.PUBLIC).exists()
    )
    if not names:
        needed = f"folders with {device_keys.LOG_KEY} or {device_keys.PUBLIC}, of 'gramophone enrol'"
        raise GramophoneError(f"{enrolled}: expected {needed}, found none")
    found, strange = collected(logs, set(names))
    devices = []
    with phase(f"logs of {len(names)} devices"):
        for name in names:
            devices.append(_verified(name, enrolled / name, found[name], rows))
    rows.finish()
    return devices, strange


def _verified(name: str, folder: Path, found: Collected, rows: Rows) -> Device:
    device = Device(name, len(found.logs))
    device.problems += [Problem("damaged", sentence(error)) for error in found.unread]
    if found.logs:
        found.logs[0].place.ahead([piece.file for piece in found.logs])
    log = Pieces([piece for piece in found.logs if _is_whole(piece, device.problems)])

    def take(position: int, entries: NDArray[np.void], good: NDArray[np.bool_]) -> None:
        done = 0
        for piece, _, size in log.parts(position, len(entries)):
            rows.add(name, position + done, piece, entries[done : done + size], good[done : done + size])
            done += size

    try:
        key, tail = _proof(folder, found.attestations, device.problems)
        if key is None and tail is None:
            if log.entries and not device.problems:
                text = (
                    f"expected {device_keys.LOG_KEY}, or an attestation with {NONCE}: nothing else proves an entry"
                )
                device.problems.append(Problem("no-proof", text, str(folder)))
            return device
        judged = judge_log(log.read, log.entries, key=key, tail=tail, take=take)
    except StoreError:  # nobody's log is read, whosever it is
        raise
    except (GramophoneError, OSError) as error:
        device.problems.append(Problem("damaged", sentence(error)))
        rows.drop(name, [(0, log.entries)])
        return device
    rows.drop(name, judged.dropped)
    device.has_end = judged.has_end
    for finding in judged.findings:
        file = None
        if finding.position is not None:
            piece, at, _ = next(log.parts(finding.position, 1))
            file = f"{piece.name}, entry {at}"
        device.problems.append(Problem(finding.fault.value, finding.text, file, finding.sequence))
    return device


def _is_whole(piece: Piece, problems: list[Problem]) -> bool:
    """Whether a file is a log; a problem if it is none, or its last entry is cut."""
    file = piece.name
    try:
        if piece.entries and LOG_MAGIC not in (magic_of(piece)[:8], magic_of(piece)[8:]):
            text = f"not a replay log: expected {LOG_MAGIC.decode()!r} in one of its first two entries"
            problems.append(Problem("damaged", text, file))
            return False
    except StoreError:
        raise
    except (GramophoneError, OSError) as error:
        problems.append(Problem("damaged", sentence(error), file))
        return False
    if (rest := piece.file.size % ENTRY_BYTES) and len(problems) < MOST:
        text = f"the last entry is not whole: expected {ENTRY_BYTES} bytes, found {rest}"
        problems.append(Problem("damaged", text, file))
    return True


def _proof(
    folder: Path, attestations: Sequence[Piece], problems: list[Problem]
) -> tuple[bytes | None, Tail | None]:
    """What proves entries: the log key, if the operator has it; where the log ended, if it is known."""
    key, tail = None, None
    if (path := folder / device_keys.LOG_KEY).exists():
        key = device_keys.read_log_key(read_file(path, limits.SMALL_BYTES), file=str(path))
    if (path := folder / TAIL).exists():
        return key, read_tail(read_file(path, limits.SMALL_BYTES), file=str(path))
    nonce, public = folder / NONCE, folder / device_keys.PUBLIC
    if attestations and nonce.exists() and public.exists():
        report = attestations[-1]
        pem = key_files.load_public_key(read_file(public, limits.SMALL_BYTES), file=str(public))
        expected = Expected(_nonce(nonce))
        attested = read_attestation(report.place.whole(report.file), file=report.name)
        wrong = [
            Problem(name, text, report.name)
            for name, text in check_attestation(attested, pem, expected)
            if name != "no-replay"  # it says where the log ends all the same
        ]
        problems += wrong
        tail = None if wrong else attested.tail
    return key, tail


def _nonce(path: Path) -> bytes:
    text = read_file(path, limits.SMALL_BYTES).decode("ascii", "replace").strip()
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise GramophoneError(f"{path}: expected a nonce in hexadecimal, found {text[:40]!r}") from None
