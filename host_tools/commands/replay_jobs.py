# SPDX-License-Identifier: BSD-2-Clause
"""What `replay` shows of single jobs: memory after one (--until), and the first that differs (--compare)."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from host_tools.accesses import job_buffers
from host_tools.accesses.job_buffers import Digest, Inputs, Written
from host_tools.audit.jobs import jobs_of
from host_tools.audit.judgement import judge
from host_tools.audit.report.collect import parse
from host_tools.commands.framework import Outcome, UsageError
from host_tools.commands.replay_request import Prepared
from host_tools.commands.streams import read
from host_tools.support.progress import phase
from host_tools.support.results import Amount, Count, Result, fields, one_of
from host_tools.support.tensors import npy
from host_tools.vgpu import confined
from trace_format.trace import Trace

LONGEST = 40  # characters of a layer's name in a file's
FLOAT = np.dtype("<f4")


class Refused(Result):
    """Why a trace is refused, with --until or --compare."""

    error: str


class Buffer(Result):
    """Memory that a job has written.

    Attributes:
        job: That wrote it last.
        layer: Of that job; empty: not known.
        address: The GPU's.
    """

    file: str
    job: Count
    layer: str
    address_space: Count
    address: Count
    bytes: Count
    dtype: Annotated[str, one_of("float32", "uint8")]


class Until(Result):
    """With --until: the memory after a job.

    Attributes:
        buffers: As index.json in the folder has it.
    """

    job: Count
    layer: str
    folder: str
    buffers: list[Buffer]


class Difference(Result):
    """The first job that writes something else.

    Attributes:
        bytes: That the job writes.
        different_bytes: Null: they write different amounts.
        largest: Largest difference as float32; null: no floats.
    """

    job: Count
    layer: str
    other_job: Count
    other_layer: str
    bytes: Count
    other_bytes: Count
    different_bytes: Count | None
    largest: Amount | None


class Compared(Result):
    """With --compare.

    Attributes:
        compared: Jobs that are the same, those that write nothing left out.
        difference: Null: there is none, or one trace has more jobs.
    """

    compared: Count
    difference: Difference | None


@dataclass(frozen=True)
class Asked:
    """--until and --dump, or --compare."""

    until: int | None
    dump: Path | None
    other: Path | None

    @property
    def is_any(self) -> bool:
        """Whether there is anything to do."""
        return any(value is not None for value in (self.until, self.dump, self.other))

    def check(self, runner: str, others: list[str]) -> None:
        """UsageError for options that do not fit together, or that only another kind of replay has."""
        option = "--until" if self.other is None else "--compare"
        if runner != "vgpu":
            raise UsageError(f"{option} cannot be used with --on {runner}: jobs are watched on vgpu only")
        if others:
            raise UsageError(f"{option} stops at jobs and takes no {others[0]}")
        if self.dump is not None and self.dump.exists() and (not self.dump.is_dir() or any(self.dump.iterdir())):
            raise UsageError(f"--dump {self.dump}: expected a new or an empty folder")


def look(asked: Asked, prepared: Prepared) -> Outcome[Until | Compared | Refused]:
    """Verify, and do what is asked.

    Raises:
        GramophoneError: there is no such job, the traces take other inputs, or one cannot be replayed.
    """
    subject, inputs = prepared.subject, prepared.inputs
    found = judge(subject.delivery, [subject.key], subject.file)
    if not found.ok or found.content is None:
        reason = found.reason if not found.ok else found.not_judged
        return Outcome(Refused(reason), f"refused: {reason}", ok=False)
    if asked.other is not None:
        return _compare(found.content, asked.other, inputs)
    assert asked.until is not None
    assert asked.dump is not None
    return _dump(found.content, inputs, asked.until, asked.dump)


def _dump(trace: Trace, inputs: Inputs, job: int, folder: Path) -> Outcome[Until]:
    with phase("replaying to the job"):
        pieces = confined.call(lambda: job_buffers.after(trace, inputs, job), list[Written])
    names = _names(trace)
    rows = []
    parent = folder.absolute().parent
    with tempfile.TemporaryDirectory(dir=parent, prefix=".gramophone-") as name:
        fresh = Path(name) / "dump"
        fresh.mkdir()
        for piece in pieces:
            layer = re.sub(r"[^A-Za-z0-9._-]+", "_", names[piece.job])[:LONGEST].strip("_")
            file = f"job{piece.job:04d}{f'-{layer}' if layer else ''}-{piece.address:#010x}.npy"
            if piece.address_space:
                file = f"as{piece.address_space}-{file}"
            kind = FLOAT if len(piece.data) % FLOAT.itemsize == 0 else np.dtype(np.uint8)
            (fresh / file).write_bytes(npy(np.frombuffer(piece.data, kind)))
            rows.append(
                Buffer(
                    file=file,
                    job=piece.job,
                    layer=names[piece.job],
                    address_space=piece.address_space,
                    address=piece.address,
                    bytes=len(piece.data),
                    dtype=kind.name,
                )
            )
        (fresh / "index.json").write_text(
            json.dumps([fields(row) for row in rows], indent=2) + "\n", encoding="utf-8"
        )
        if folder.exists():
            folder.rmdir()
        shutil.move(fresh, folder)
    own = [row for row in rows if row.job == job]
    text = [
        f"{folder}: memory after {_called(job, names[job])}: {len(rows)} files, "
        f"{sum(len(piece.data) for piece in pieces)} bytes; index.json says what is what",
        *(f"  {row.file}: {row.bytes} bytes" for row in own),
    ]
    return Outcome(Until(job, names[job], str(folder), rows), "\n".join(text))


def _compare(trace: Trace, file: Path, inputs: Inputs) -> Outcome[Compared]:
    other = parse(read(file), str(file))
    job_buffers.check_same_slots(trace, other, inputs, str(file))
    with phase("replaying both"):
        one = confined.call(lambda: job_buffers.digests(trace, inputs), list[Digest])
        two = confined.call(lambda: job_buffers.digests(other, inputs), list[Digest])
    for same, (a, b) in enumerate(zip(one, two, strict=False)):
        if (a.bytes, a.sha256) != (b.bytes, b.sha256):
            difference, text = _difference(trace, other, inputs, a, b, file)
            return Outcome(Compared(same, difference), text, ok=False)
    if len(one) != len(two):
        count = min(len(one), len(two))
        text = f"the first {count} jobs that write are the same; there are {len(one)}, in {file} {len(two)}"
        return Outcome(Compared(count, None), text, ok=False)
    text = f"all {len(one)} jobs that write, write the same in {file}"
    return Outcome(Compared(len(one), None), text)


def _difference(
    trace: Trace, other: Trace, inputs: Inputs, a: Digest, b: Digest, file: Path
) -> tuple[Difference, str]:
    with phase("comparing the job"):
        one = confined.call(lambda: job_buffers.written_by(trace, inputs, a.job), bytes)
        two = confined.call(lambda: job_buffers.written_by(other, inputs, b.job), bytes)
    layers = _names(trace)[a.job], _names(other)[b.job]
    found = Difference(a.job, layers[0], b.job, layers[1], len(one), len(two), None, None)
    head = f"first difference: {_called(a.job, layers[0])}, in {file} {_called(b.job, layers[1])}"
    if len(one) != len(two):
        return found, f"{head}: it writes {len(one)} bytes, there {len(two)}"
    found.different_bytes = int(np.count_nonzero(np.frombuffer(one, np.uint8) != np.frombuffer(two, np.uint8)))
    if len(one) % FLOAT.itemsize == 0:
        x, y = (np.frombuffer(side, FLOAT).astype(np.float64) for side in (one, two))
        finite = np.isfinite(x) & np.isfinite(y)
        found.largest = float(np.abs(x - y)[finite].max()) if finite.any() else None
    more = f"; as float32 by at most {found.largest:.4g}" if found.largest is not None else ""
    return found, f"{head}: {found.different_bytes} of {len(one)} bytes that it writes differ{more}"


def _called(job: int, layer: str) -> str:
    return f"job {job} ({layer})" if layer else f"job {job}"


def _names(trace: Trace) -> list[str]:
    return [job.name for job in jobs_of(trace).jobs]
