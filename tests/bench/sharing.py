# SPDX-License-Identifier: BSD-2-Clause
"""LeNet beside another network on one GPU: `python -m tests.bench.sharing [squeezenet|mobilenet] [--longest US]`.

Five seeds of random requests at half load; a request is late after four times what it takes alone. Networks are
recorded unless the cache has them, in minutes. Exit status 1 unless with cuts at most 1 % of requests are late,
where more than 10 % are by FIFO.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from host_tools.accesses.job_times import job_times
from host_tools.accesses.observe import random_inputs
from host_tools.extras.sharing import sharing
from host_tools.extras.sharing.sharing import SECOND_US, Network
from host_tools.model.timing import chips
from host_tools.passes.pipeline import build
from tests.bench.networks import LARGE, raw_file
from tests.support.left_behind import unread_difference
from trace_format.trace import Trace

CHIP, LOAD, DEADLINE, SEEDS, SECONDS = "pi4", 0.5, 4.0, 5, 20.0
FIFO_OVER, CUT_UNDER = 0.1, 0.01
BEST = "edf-last", True  # policy, and whether jobs are cut
ORDER = (("fifo", False), ("round-robin", False), ("edf", False), ("edf-last", False), ("edf", True), BEST)


@dataclass(frozen=True)
class Row:
    """A policy: of all seeds the share of requests that were late, and the longest job in microseconds."""

    policy: str
    late: Sequence[float]
    longest_us: float


def jobs(trace: Trace) -> tuple[float, ...]:
    """Estimated microseconds of each job of a replay."""
    return tuple(time.us for job, time in job_times(trace, chips()[CHIP]) if not job.prepares)


def measure(other: str, longest_us: float) -> tuple[list[Row], float, int]:
    """The table, how much longer the other network's replay is with cuts, as a share, and how many bytes that
    nobody reads are others then."""
    whole, pieces, apart = [], [], 0
    for name in ("lenet", other):
        file = raw_file(name)
        before, after = (build(Trace.read(file), asked=asked) for asked in ({}, {"cut-jobs": longest_us}))
        whole.append(jobs(before))
        pieces.append(jobs(after))
        apart += unread_difference(before, after, random_inputs(before, 0))
    networks = [Network(str(number), one, DEADLINE * sum(one)) for number, one in enumerate(whole)]
    cut = [replace(network, jobs=one) for network, one in zip(networks, pieces, strict=True)]
    rates = [LOAD / len(networks) / network.alone_us * SECOND_US for network in networks]
    asked = [sharing.poisson(rates, SECONDS * SECOND_US, seed) for seed in range(SEEDS)]
    rows = []
    for policy, cuts in ORDER:
        used = cut if cuts else networks
        late = [sharing.simulate(used, requests, policy).late for requests in asked]
        rows.append(Row(policy + "-cut" * cuts, late, max(max(network.jobs) for network in used)))
    return rows, sum(pieces[1]) / sum(whole[1]) - 1, apart


def main() -> int:
    """Print the table, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sharing", description=__doc__)
    parser.add_argument("other", nargs="?", default="squeezenet", choices=list(LARGE))
    parser.add_argument("--longest", type=float, default=2000.0, metavar="US")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    rows, more, apart = measure(options.other, options.longest)
    if options.json:
        print(json.dumps({"policies": [asdict(row) for row in rows], "more": more, "unread_bytes": apart}))
    else:
        print(f"LeNet and {options.other}, load {LOAD}, {SEEDS} seeds; cuts take {100 * more:.1f} % more")
        print(f"outputs and memory are the same, but for {apart:,} bytes that are written before they are read")
        for row in rows:
            low, mean, high = (100 * of(row.late) for of in (min, np.mean, max))
            late = f"late {mean:5.2f} % ({low:.2f} to {high:.2f})"
            print(f"{row.policy:14} {late}, longest job {row.longest_us:8,.0f} us")
    return 0 if min(rows[0].late) > FIFO_OVER and max(rows[-1].late) <= CUT_UNDER else 1


if __name__ == "__main__":
    sys.exit(main())
