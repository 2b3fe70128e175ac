# SPDX-License-Identifier: BSD-2-Clause
"""What a board sent back (kit.py, run.sh), as a raw trace with slots."""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from host_tools.machine.boot import RAM_END
from host_tools.machine.errors import RecordError
from host_tools.model.memory import Memory
from host_tools.passes.register_passes import mask_volatile_bits
from host_tools.record.board.kit import KIT_VERSION, SPEC
from host_tools.record.checking import check_replay
from host_tools.record.convert import convert
from host_tools.record.inputs import recorded_inputs
from host_tools.record.layouts import of_ncnn
from host_tools.record.ncnn.job import NcnnResult, ncnn_result
from host_tools.record.ncnn.network import RUNS, check_result
from host_tools.record.slots import Words, with_slots
from host_tools.support.progress import phase
from host_tools.support.version import TOOL
from trace_format import limits
from trace_format.errors import TraceError
from trace_format.files import open_regular
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

MAX_BYTES = 1 << 31  # of a result: GPU addresses above 2 GiB are not recorded
_PAGE = np.dtype([("va", "<u4"), ("content", "<u4", PAGE_BYTES // 4)])


class _Spec(NamedTuple):
    """What the kit was made of."""

    name: str
    shapes: dict[str, tuple[int, ...]]
    tolerance: float
    hashes: dict[str, str]


class _Run(NamedTuple):
    """One of the board's runs."""

    trace: Trace
    result: NcnnResult
    final: Words


def board_trace(path: Path, name: str | None = None) -> Trace:
    """The first of the board's three runs, with the slots that all three betray.

    Args:
        path: result.tar.
        name: name of the trace; None: that of the kit.

    Raises:
        RecordError: not a result, or one of another version; a result that differs from ncnn's CPU result or from
            the virtual GPU's by more than the kit's tolerance; otherwise as `with_slots`.
        TraceError: a damaged capture.
    """
    files = _read(path)
    spec = _spec(path, files)
    with phase("reading the board's three runs"):
        runs = [_run(path, files, number, name or spec.name, spec) for number in range(1, RUNS + 1)]
    first, second, third = runs
    inputs = recorded_inputs(spec.shapes)
    with phase("following inputs, outputs and parameters"):
        trace = with_slots(
            first.trace,
            lambda: second.trace,
            lambda: third.trace,
            inputs,
            (first.result.outputs, second.result.outputs),
            of_ncnn,
            finals=(first.final, second.final),
        )
    # The board did nothing that the recording lacks, if the virtual GPU makes the same of what the board got.
    check_replay(trace, [(inputs[1], second.result.outputs)], spec.tolerance, "what the board computed")
    return trace


def _read(path: Path) -> dict[str, bytes]:
    """The regular files of a tar file, by name."""
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    try:
        with open_regular(path, limits.MODEL_BYTES) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            for member in archive:
                left -= member.size
                if left < 0:
                    raise RecordError(f"{path}: expected at most {MAX_BYTES} bytes of files, found more")
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is not None:
                    files[member.name.removeprefix("./")] = stream.read()
    except (tarfile.TarError, EOFError) as error:
        raise RecordError(f"{path}: expected the result.tar of a board: {error}") from error
    return files


def _file(files: Mapping[str, bytes], name: str) -> bytes:
    try:
        return files[name]
    except KeyError:
        raise RecordError(f"{name} is missing; did run.sh end with an error?") from None


def _spec(path: Path, files: Mapping[str, bytes]) -> _Spec:
    try:
        data: dict[str, Any] = json.loads(_file(files, SPEC))
        version = data["version"]
        shapes = {str(blob): tuple(int(n) for n in shape) for blob, shape in data["shapes"].items()}
        hashes = {key: str(data[key]) for key in ("param_sha256", "weights_sha256")}
        spec = _Spec(str(data["name"]), shapes, float(data["tolerance"]), hashes)
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"{path}: {SPEC} is not what `record pi-kit` wrote: {error!r}") from error
    if version != KIT_VERSION:
        raise RecordError(
            f"{path}: expected a kit of version {KIT_VERSION}, found {version!r} ('record pi-kit' packs one)"
        )
    return spec


def _run(path: Path, files: Mapping[str, bytes], number: int, name: str, spec: _Spec) -> _Run:
    """One run. Its errors name the result and the run, not where its parts were unpacked."""
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        try:
            return _read_run(files, number, name, spec, Path(folder))
        except (RecordError, TraceError) as error:
            raise RecordError(f"{path}, run {number}: {str(error).replace(f'{folder}/', '')}") from error


def _read_run(files: Mapping[str, bytes], number: int, name: str, spec: _Spec, folder: Path) -> _Run:
    prefix = f"out/{number}/"
    result = ncnn_result({key.removeprefix(prefix): data for key, data in files.items() if key.startswith(prefix)})
    check_result(result, spec.tolerance)
    system, _, model = _file(files, "out/board").decode(errors="replace").strip().partition("\n")
    versions = result.versions
    meta = {
        "name": name,
        "recorder": TOOL,
        "kernel": system,
        "driver": _mesa(versions),
        "framework": f"ncnn {versions.get('ncnn', 'of an unknown version')}",
    }
    notes = {"board": model, "guest": versions, **spec.hashes}
    capture = folder / "capture"
    capture.write_bytes(_file(files, prefix + "capture"))
    trace = convert(capture, ram_end=RAM_END, meta=meta, notes=notes)
    trace = mask_volatile_bits(trace)  # the recorder cannot read registers: it does not know their values
    return _Run(trace, result, _final(_file(files, prefix + "capture.memory"), Memory.of(trace)))


def _mesa(versions: Mapping[str, str]) -> str:
    """Mesa's version, from the driver's (Vulkan: major in bits 31:22, minor 21:12, patch 11:0)."""
    try:
        number = int(versions["vulkan"].rpartition(" ")[2], 16)
    except (KeyError, ValueError) as error:
        raise RecordError(f"the board's answer has no driver version: {error!r}") from error
    return f"Mesa {number >> 22}.{number >> 12 & 0x3FF}.{number & 0xFFF}"


def _final(data: bytes, memory: Memory) -> Words:
    """What the last job left, by GPU address, of every page that jobs could see."""
    if len(data) % _PAGE.itemsize:
        raise RecordError(f"capture.memory: expected pages of {_PAGE.itemsize} bytes, found {len(data)}")
    pages = np.frombuffer(data, _PAGE)
    left = dict(zip(pages["va"].tolist(), pages["content"], strict=True))
    zeros = np.zeros(PAGE_BYTES // 4, np.uint32)
    return {at: left.get(at, zeros) for at in (page * PAGE_BYTES for (_, page), _ in memory.mappings.items())}
