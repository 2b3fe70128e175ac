# SPDX-License-Identifier: BSD-2-Clause
"""What a behaviour report says: plain facts, which the page shows and `--json` prints.

Numbers of jobs count from 0 all that
a trace starts; those of regions and shaders their place in the lists here. Addresses and sizes are in bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from host_tools.accesses.job_times import Estimated
from trace_format import streamed
from trace_format.schema import PAGE_BYTES

# Verdicts on the signature.
VERIFIED, REFUSED, NO_KEY, UNSIGNED = "verified", "refused", "no-key", "unsigned"
# What became of the run on the virtual GPU.
RAN, NOT_ASKED, FAILED = "done", "not-asked", "failed"
MAPPINGS, DESCRIPTORS = "mappings", "descriptors"  # what "may touch" is from
JOB, SLOT, TRACE, CLEARED, NOBODY = "job", "slot", "trace", "cleared", "nobody"  # kinds of nodes of the data flow


@dataclass(frozen=True)
class File:
    """The file that the report is about."""

    name: str
    bytes: int
    sha256: str


def file_of(name: str, data: bytes) -> File:
    """The file of this name and content."""
    return File(name, len(data), hashlib.sha256(data).hexdigest())


@dataclass(frozen=True)
class Signature:
    """Who signed it: one of the verdicts above, and why."""

    verdict: str
    reason: str
    algorithm: str | None
    key_id: str | None
    refused_by_devices: str | None


@dataclass(frozen=True)
class About:
    """What the manifest says, claims of who made the trace; whether the GPU's page tables say what is code."""

    name: str
    trace_id: str
    gpu: str
    gpu_title: str
    forbids_execution: bool
    raw: bool
    security_version: int
    source_hash: str
    recorder: str
    kernel: str
    driver: str
    framework: str


@dataclass(frozen=True)
class Slot:
    """A tensor that goes in or out."""

    name: str
    kind: str
    dtype: str
    shape: list[int]
    address: int
    address_space: int
    bytes: int
    bound: bool


@dataclass(frozen=True)
class Needs:
    """What a device must have, and a caller must give.

    Attributes:
        writable_bytes: of GPU memory, that page tables let jobs write; what has several addresses counts once.
    """

    secure_bytes: int | None
    carveout_bytes: int
    image_bytes: int
    va_bytes: int
    writable_bytes: int
    interrupts: list[str]
    time_budget_us: int
    retry_limit: int
    values: list[str]


@dataclass(frozen=True)
class Did:
    """What a job did to a region: how many different bytes it read and wrote."""

    job: int
    read: int
    written: int


@dataclass(frozen=True)
class Region:
    """Consecutive pages of GPU memory that are mapped alike.

    Attributes:
        access: what page tables allow: some of r, w, x.
        image_bytes: how many of its bytes lie in the image, which is signed and never written.
        shared_bytes: how many of its bytes are mapped at other addresses too.
        slots: names of the slots in it.
        code_of, named_by: jobs whose code lies in it; jobs that name something else there.
        may: jobs that may touch it.
        did: what jobs did to it; None without a run.
    """

    address_space: int
    address: int
    bytes: int
    access: str
    image_bytes: int
    shared_bytes: int
    slots: list[str]
    code_of: list[int]
    named_by: list[int]
    may: list[int]
    did: list[Did] | None


@dataclass(frozen=True)
class Job:
    """One job; the figures of a run are None without one.

    Attributes:
        us: how long it is estimated to take on a board; None: not asked for, or nothing is known of it.
    """

    number: int
    action: int
    marker: int | None
    name: str
    kind: str
    work: str
    registers: dict[str, int]
    shaders: list[int]
    instructions: int | None
    bytes_read: int | None
    bytes_written: int | None
    us: float | None = None


@dataclass(frozen=True)
class Shader:
    """Code that jobs execute; `lines` are its instructions, empty where nothing can tell."""

    sha256: str
    address: int
    bytes: int
    jobs: list[int]
    flaw: str
    lines: list[str]


@dataclass(frozen=True)
class Node:
    """An end of an edge of the data flow; `job` and `slot` are None where it is something else."""

    kind: str
    job: int | None = None
    slot: str | None = None


@dataclass(frozen=True)
class Edge:
    """So many bytes that `source` wrote last are read by `target`."""

    source: Node
    target: Node
    bytes: int


@dataclass(frozen=True)
class Flow:
    """Data flow, and what it was seen from: "run", or "" where it is not known."""

    basis: str
    edges: list[Edge]


@dataclass(frozen=True)
class Register:
    """A register that the trace touches; `values` are the different values that it writes, the first ones."""

    name: str
    offset: int
    reads: int
    writes: int
    values: list[int]
    more_values: int
    may_set: int | None


@dataclass(frozen=True)
class Finding:
    """What breaks a rule of docs/RULES.md.

    Attributes:
        allowed: why it is accepted; None: it is not.
        job, shader, line: where it is, as far as that is known: places in the lists of the report, and of the
            shader's lines.
    """

    rule: str
    title: str
    severity: str
    reason: str
    device: str
    action: int | None
    text: str
    allowed: str | None = None
    job: int | None = None
    shader: int | None = None
    line: int | None = None


@dataclass(frozen=True)
class Piece:
    """Memory of a streamed trace that devices read while jobs run, in each replay unless it is resident.

    Attributes:
        offset: in the carve-out.
        from_job: the first job during which it may be read.
        first_job, last_job: those that need it.
    """

    offset: int
    bytes: int
    from_job: int
    first_job: int
    last_job: int
    resident: bool


def piece_of(piece: streamed.Piece) -> Piece:
    """A piece of a trace."""
    jobs = piece.from_job, piece.first_job, piece.last_job
    return Piece(piece.page * PAGE_BYTES, len(piece.data), *jobs, piece.resident)


@dataclass(frozen=True)
class Run:
    """The run on the virtual GPU: what became of it, whether shaders were executed, with which inputs."""

    state: str
    text: str
    compute: str
    inputs: dict[str, str]


@dataclass(frozen=True)
class Report:
    """All of it.

    Attributes:
        counts: of findings that are not accepted.
        passes: whether `gramophone lint --strict` would pass it, with `--dynamic` if it was run.
        pieces: none where the trace is not streamed.
        estimate: how long a replay takes on a board; None: not asked for, or nothing is known of it.
    """

    tool: str
    file: File
    signature: Signature
    about: About
    actions: int
    needs: Needs
    slots: list[Slot]
    run: Run
    may_basis: str
    not_followed: str
    jobs: list[Job]
    regions: list[Region]
    shaders: list[Shader]
    flow: Flow
    registers: list[Register]
    findings: list[Finding]
    counts: dict[str, int]
    passes: bool
    reproduce: list[str]
    pieces: list[Piece]
    estimate: Estimated | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against it: it is not refused, and no rule is broken but for what is accepted."""
        refused = self.signature.verdict == REFUSED or self.signature.refused_by_devices is not None
        return not refused and self.passes
