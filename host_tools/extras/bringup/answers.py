# SPDX-License-Identifier: BSD-2-Clause
"""Outputs as they come back from a board: a folder of .npy files, the result.tar of `try-gpu`, or the mailbox of a
bare-metal firmware."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.families.family import profile_of
from host_tools.support.npy import MAX_HEADER_BYTES
from host_tools.support.tensors import array_of, assigned, fitted, load_all
from tee_replayer.generator.status import Report
from trace_format import limits, packing
from trace_format.errors import GramophoneError, MagicError, printable
from trace_format.files import open_regular, read_file
from trace_format.schema import SlotKind
from trace_format.schema.mailbox import MAILBOX_BUFFERS, MAILBOX_DATA_AT, MAILBOX_RESPONSE_AT
from trace_format.trace import Trace

_REQUEST, _BUFFER = packing.size_of("mailbox_request"), packing.size_of("mailbox_buffer")
_RESPONSE = packing.size_of("mailbox_response")
_TAR_AT, _TAR = 257, b"ustar"  # POSIX.1-2017, pax, "ustar Interchange Format"
_RESULT = "result"  # its folder in result.tar (host_tools/extras/try_gpu/port/try-gpu.sh)


def outputs_of(path: Path, trace: Trace, name: str) -> dict[str, NDArray[Any]]:
    """The outputs of a trace that came back.

    Args:
        path: a folder of SLOT.npy files, a result.tar, or an image of a mailbox.
        trace: that was replayed.
        name: of its file without the ending, by which a result.tar has it.

    Raises:
        GramophoneError: it is neither, the replay failed, or what is there does not fit the trace.
    """
    if path.is_dir():
        return load_all(trace, assigned("output", [(None, path)]), SlotKind.OUTPUT)
    data = read_file(path, limits.FILE_BYTES)
    if data[_TAR_AT:].startswith(_TAR):
        try:
            return _of_result(path, trace, name)
        except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
            raise GramophoneError(f"{path}: a damaged archive: {error}; copy result.tar again") from None
    return _of_mailbox(data, str(path), trace)


def _of_result(path: Path, trace: Trace, name: str) -> dict[str, NDArray[Any]]:
    """Raises tarfile.TarError and others of its kind: the archive is damaged."""
    found = {}
    with open_regular(path, limits.FILE_BYTES) as file, tarfile.open(fileobj=file, mode="r:") as archive:
        entries = {entry.name: entry for entry in archive if entry.isfile()}

        def read(entry: str, most: int) -> bytes:
            stream = archive.extractfile(entries[entry])
            assert stream is not None
            return stream.read(most)

        log = f"{_RESULT}/{name}.txt"
        for slot in (slot for slot in trace.slots if slot.kind == SlotKind.OUTPUT):
            entry = f"{_RESULT}/{name}.{slot.name}.npy"
            where = f"{path}: {entry}"
            if entry not in entries:
                said = read(log, limits.PASSPHRASE_BYTES).decode("utf-8", "replace") if log in entries else ""
                why = (
                    f"the board says: {printable(said.strip())}" if said else "is it of another network or board?"
                )
                raise GramophoneError(f"{where}: expected it in the archive, found none; {why}")
            most = slot.dense_bytes + MAX_HEADER_BYTES
            found[slot.name] = fitted(array_of(read(entry, most), where), slot, where)
    return found


def _of_mailbox(memory: bytes, file: str, trace: Trace) -> dict[str, NDArray[Any]]:
    if len(memory) < MAILBOX_DATA_AT:
        raise GramophoneError(
            f"{file}: too small for a mailbox: expected a folder of SLOT.npy files, the result.tar of try-gpu, or "
            f"at least {MAILBOX_DATA_AT} bytes, found {len(memory)}"
        )
    try:
        request = packing.unpack("mailbox_request", memory[:_REQUEST])
        answer = packing.unpack("mailbox_response", memory[MAILBOX_RESPONSE_AT:][:_RESPONSE], MAILBOX_RESPONSE_AT)
    except MagicError as error:
        raise GramophoneError(
            f"{file}: no mailbox with an answer: {error}; read it back after the firmware's last line"
        ) from None
    report = Report(**answer["report"])
    if not report.ok:
        raise GramophoneError(f"{file}: the device did not replay it: {report.describe(profile_of(trace.gpu))}")
    if request["buffer_count"] > MAILBOX_BUFFERS:
        raise GramophoneError(
            f"{file}: buffers: expected at most {MAILBOX_BUFFERS}, found {request['buffer_count']}"
        )
    found = {}
    for number in range(request["buffer_count"]):
        row = packing.unpack("mailbox_buffer", memory[_REQUEST + number * _BUFFER :][:_BUFFER])
        slot = trace.slots[row["slot"]] if row["slot"] < len(trace.slots) else None
        if slot is None or slot.kind != SlotKind.OUTPUT:
            continue
        data = memory[row["offset"] : row["offset"] + slot.dense_bytes]
        if len(data) != slot.dense_bytes or row["bytes"] != slot.dense_bytes:
            raise GramophoneError(
                f"{file}: output {slot.name}: expected {slot.dense_bytes} bytes at {row['offset']:#x}, found a "
                f"buffer of {row['bytes']} in a file of {len(memory)}"
            )
        found[slot.name] = np.frombuffer(data, slot.numpy_dtype).reshape(slot.shape)
    return found
