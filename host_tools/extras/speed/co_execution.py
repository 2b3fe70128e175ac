# SPDX-License-Identifier: BSD-2-Clause
"""The CPU computes some output channels of a product while the GPU computes the others.

While a job runs, the core waits. Of a pointwise convolution or a fully connected layer the GPU keeps its first
workgroups, and the operator `conv1x1` or `dense` computes the rest beside them. Which jobs are products, the
recording's notes claim (host_tools/model/products.py); whether it is so, the jobs' own results say (co_claims.py).
Whether the first workgroups compute the first channels and nothing else, and the CPU shares nothing with them that
one of the two writes, their accesses say. How a job is divided is predicted (co_shares.py). What is not shown
stays the GPU's alone, by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.beside_jobs import why_not_beside
from host_tools.accesses.job_work import job_work
from host_tools.accesses.observe import FIRST_SEED, OTHER_SEED, Watched, random_inputs, watched
from host_tools.accesses.pieces import alike, why_not
from host_tools.accesses.proof import Job
from host_tools.accesses.slot_places import bytes_of
from host_tools.extras.speed.co_actions import OPERANDS, put_in
from host_tools.extras.speed.co_claims import floats, judged
from host_tools.extras.speed.co_report import CoExecuted, CoExecutedFacts, Left, Shared
from host_tools.extras.speed.co_shares import LeftError, Share, chosen
from host_tools.families.cutting import Cutting, NotCutError
from host_tools.families.page_tables import DivergenceError
from host_tools.families.speed import speed_of
from host_tools.model.interpreter import interpreter
from host_tools.model.job_names import job_names
from host_tools.model.memory import Conflict, Memory
from host_tools.model.products import Product, noted
from host_tools.model.timing import Chip, JobTime, TimingError, chip_of, estimate
from host_tools.passes.cut_actions import Found, jobs_in, named, with_pieces
from host_tools.passes.program import Program
from host_tools.passes.registry import Option, Pass
from host_tools.vgpu.binding import ACCESS_WRITTEN, VgpuError
from trace_format.actions import FLAG_BESIDE
from trace_format.errors import SlotError
from trace_format.operators import ROW_ALIGNMENT, operations
from trace_format.schema import MAX_SLOTS, SlotKind
from trace_format.trace import Trace

Array = NDArray[Any]
Constants = Mapping[int, tuple[Array, Array | None]]  # job -> weights in rows, bias
TOLERANCE = 1e-5  # of outputs, relative to the largest value
SEEDS = (FIRST_SEED, OTHER_SEED)
NO_CLAIM = "the recording says of no job that it is a product, as `record onnx --compiler tinygrad` does"


def co_execute(program: Program) -> str:
    """Let the CPU compute a part of pointwise convolutions and dense layers beside the GPU (`--co-execute`)."""
    trace = program.trace()
    claims = noted(trace)
    cutting = speed_of(trace.profile).cutting
    if isinstance(cutting, str):
        return cutting
    if not claims:
        return NO_CLAIM
    try:
        executor = _Executor(program, trace, cutting, claims, program.asked[PASS.name])
        program.reports[PASS.name] = executor.run()
    except TimingError as error:
        return str(error)
    except (Conflict, DivergenceError, VgpuError) as error:
        return f"its jobs cannot be observed: {error}"
    return ""


class _Executor:
    """Attributes:
    why: job -> why it stays the GPU's alone.
    """

    def __init__(
        self, program: Program, trace: Trace, cutting: Cutting, claims: Sequence[Product], gflops: float
    ) -> None:
        self.program, self.trace, self.cutting, self.gflops = program, trace, cutting, gflops
        self.claims = sorted(claims, key=lambda claim: claim.job)
        self.chip: Chip = chip_of(trace.gpu)
        self.found: list[Found | str] = jobs_in(trace)
        self.inputs = [random_inputs(trace, seed, (SlotKind.INPUT, SlotKind.PARAMETER)) for seed in SEEDS]
        self.why: dict[int, str] = {}
        self.times = self._times(trace)

    def run(self) -> CoExecuted:
        """Change the program; what was done."""
        wrong, constants = judged(self.trace, self.claims, self.inputs)
        self.why |= wrong
        self._check_constants()
        left = [claim for claim in self.claims if claim.job not in self.why]
        shares = [share for claim in left if (share := self._share(claim))]
        shares, seen = self._shown(shares)
        room = (MAX_SLOTS - len(self.trace.slots)) // OPERANDS
        for share in shares[room:]:
            self.why[share.product.job] = f"a trace has at most {MAX_SLOTS} slots"
        shares = shares[:room]
        added, difference = 0, 0.0
        shares = self._apart(shares, constants)
        if shares:
            difference = self._difference(self._tried(shares, constants))
            if not difference <= TOLERANCE:
                raise Conflict(f"outputs would differ by {difference:.1e} of the largest value")
            added = put_in(self.program, self.cutting, self.found, shares, constants)
        return self._report(shares, seen, added, difference)

    def _times(self, trace: Trace) -> list[tuple[bool, JobTime]]:
        work = job_work(trace, self.inputs[0])
        return [(job.prepares, estimate(job.dispatches, self.chip, job.cores)) for job in work]

    def _check_constants(self) -> None:
        """Weights and biases are nobody's to change: neither jobs' nor callers'."""
        memory = Memory.of(self.trace)
        given = bytes_of(memory, [slot for slot in self.trace.slots if slot.kind is not SlotKind.INTERNAL])
        written = watched(self.trace, self.inputs[0]).union
        for claim in (claim for claim in self.claims if claim.job not in self.why):
            places = [floats("weights", claim.weights, claim.weights_size)]
            if claim.bias is not None:
                places.append(floats("bias", claim.bias, claim.rows))
            try:
                own = bytes_of(memory, places)
            except SlotError:
                self.why.setdefault(claim.job, "its tensors do not lie where the recording says")
                continue
            changed = any(
                (frame in given and (mask & given[frame]).any())
                or (frame in written and (mask & ((written[frame] & ACCESS_WRITTEN) != 0)).any())
                for frame, mask in own.items()
            )
            if changed:
                self.why.setdefault(claim.job, "its weights are no constants")

    def _share(self, claim: Product) -> Share | None:
        """The predicted division of a job."""
        try:
            return self._divided(claim)
        except (LeftError, NotCutError) as error:
            self.why[claim.job] = str(error)
            return None

    def _divided(self, claim: Product) -> Share:
        job = self.found[claim.job]
        if isinstance(job, str):
            raise LeftError(job)
        prepares, time = self.times[claim.job]
        if prepares:
            raise LeftError("it runs once, before replays")
        if claim.out % ROW_ALIGNMENT or claim.given % ROW_ALIGNMENT:
            raise LeftError(f"its tensors do not begin at multiples of {ROW_ALIGNMENT} bytes")
        for slot in (
            floats("to", claim.out, claim.rows, claim.columns),
            floats("from", claim.given, claim.inner, claim.columns),
        ):
            if not self._in_one_piece(slot.address, slot.span):
                raise LeftError("its tensors' pages do not follow one another in memory")
        prefixes = self.cutting.prefixes(self.trace.profile, named(self.trace, job))
        return chosen(claim, prefixes, time.us, time.parts["start"], self.gflops)

    def _in_one_piece(self, address: int, size: int) -> bool:
        pages = range(address >> 12, (address + size - 1 >> 12) + 1)
        mappings = Memory.of(self.trace).mappings
        at = np.searchsorted(mappings.keys, pages)
        if at[-1] >= len(mappings.keys) or (mappings.keys[at] != pages).any():
            return False
        return bool((np.diff(mappings.frames[at]) == 1).all())

    def _shown(self, shares: Sequence[Share]) -> tuple[list[Share], list[int]]:
        """Shares of which the GPU's is the first channels, whole, and no more; and which two replays show."""
        if not shares:
            return [], []
        parts = {share.product.job: [share.prefix.first, share.prefix.others] for share in shares}
        trace = with_pieces(self.trace, self.cutting, self.found, parts)
        first = watched(trace, self.inputs[0])
        if len(first.jobs) != len(self.found) + len(parts):
            self.why |= dict.fromkeys(parts, "not all jobs are announced, each by itself")
            return [], []
        memory = Memory.of(trace)
        kept, open_jobs = [], []
        second: Watched | None = None
        for number, share in enumerate(shares):
            job = share.product.job
            place = slice(job + number, job + number + 2)
            why = why_not(trace, first.jobs, place) or _not_first(memory, share, *first.jobs[place])
            if not why and (first.changes_commands or any(one.varies for one in first.jobs[place])):
                open_jobs.append(job)
                second = second or watched(trace, self.inputs[1])
                if not alike(first.jobs[place], second.jobs[place]):
                    why = "what it accesses depends on data"
            if why:
                self.why[job] = why
            else:
                kept.append(share)
        return kept, [job for job in open_jobs if job not in self.why]

    def _tried(self, shares: Sequence[Share], constants: Constants) -> Trace:
        """The trace with the CPU's shares; the program is as it was."""
        trial = Program(self.trace)
        put_in(trial, self.cutting, self.found, shares, constants)
        return trial.trace()

    def _apart(self, shares: list[Share], constants: Constants) -> list[Share]:
        """Those that share no memory with their jobs that one of the two writes."""
        while shares:
            trace = self._tried(shares, constants)
            places = [index for index, row in operations(trace.actions) if row.flags & FLAG_BESIDE]
            reasons = why_not_beside(trace)
            pairs = zip(shares, places, strict=True)
            wrong = {share.product.job: reasons[at] for share, at in pairs if reasons[at]}
            if not wrong:
                break
            self.why |= wrong
            shares = [share for share in shares if share.product.job not in wrong]
        return shares

    def _difference(self, changed: Trace) -> float:
        """Of outputs from what they were, relative to the largest value."""
        worst = 0.0
        for inputs in self.inputs:
            with interpreter(self.trace) as run:
                expected = {name: value.copy() for name, value in run.run(inputs).items()}
            with interpreter(changed) as run:
                found = run.run(inputs)
                for name, value in expected.items():
                    largest = float(np.abs(value).max()) or 1.0
                    difference = np.abs(value.astype(np.float64) - found[name]).max()
                    worst = max(worst, float(difference) / largest)
        return worst

    def _report(self, shares: Sequence[Share], seen: Sequence[int], added: int, difference: float) -> CoExecuted:
        after = self._times(self.program.trace()) if shares else self.times
        names = job_names(self.trace) or [""] * len(self.times)
        shared = [
            Shared(
                share.product.job + 1,
                names[share.product.job],
                share.product.operator.name.lower(),
                (share.rows, share.product.rows - share.rows),
                self.times[share.product.job][1].us,
                after[share.product.job][1].us,
                share.cpu_us,
            )
            for share in shares
        ]
        of_replay = sum(time.us for prepares, time in self.times if not prepares)
        gained = sum(job.before_us - job.us for job in shared)
        return CoExecuted(
            self.chip.title,
            self.gflops,
            (of_replay, of_replay - gained),
            added,
            difference,
            [share.product.job + 1 for share in shares if share.product.job in seen],
            shared,
            [Left(job + 1, names[job], why) for job, why in sorted(self.why.items())],
        )


def _not_first(memory: Memory, share: Share, kept: Job, others: Job) -> str:
    """Why the first workgroups are not the first channels; "": they are, and the others write nothing else."""
    product = share.product
    first = floats("to", product.out, share.rows, product.columns)
    rest = floats("to", product.out + first.span, product.rows - share.rows, product.columns)
    of_first, of_rest = (bytes_of(memory, [slot]) for slot in (first, rest))
    wrote_first, wrote_rest = (
        {frame: (flags & ACCESS_WRITTEN) != 0 for frame, flags in job.accesses.items()} for job in (kept, others)
    )
    nothing = np.zeros(1, np.bool_)
    for frame in of_first.keys() | of_rest.keys() | wrote_rest.keys():
        own, other = of_first.get(frame, nothing), of_rest.get(frame, nothing)
        by_first, by_rest = wrote_first.get(frame, nothing), wrote_rest.get(frame, nothing)
        if (by_first & other).any() or (own & ~by_first).any():
            return "its first workgroups do not compute the first channels"
        if (by_rest & ~(other | by_first)).any():
            return "its last workgroups write more than their channels"
    return ""


PASS = Pass(
    "co-execute",
    (co_execute.__doc__ or "").splitlines()[0],
    co_execute,
    Option(
        "--co-execute",
        "CPU_GFLOPS",
        (
            "Compute channels of pointwise convolutions and dense layers on a CPU of this rate, beside the "
            "GPU; for a V3D and recordings by tinygrad."
        ),
        "co_executed",
        CoExecutedFacts,
    ),
    changes_jobs=True,
)
