# SPDX-License-Identifier: BSD-2-Clause
"""`python -m tests.campaign`: attack the firmware with faults, and print what became of them (make campaign)."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from pathlib import Path

from tee_replayer.generator import profiles
from tests.campaign import cases, encryption, networks, sampling, streaming, trust
from tests.campaign.campaign import Campaign, Result
from tests.campaign.cases import Case
from tests.campaign.computing import CASES
from tests.campaign.device import (
    BARE_METAL,
    BOARDS,
    HIKEY960,
    LINKED,
    LINKED_MMU,
    LOG_MMU,
    MMU,
    OPTEE,
    PLAIN,
    RPI4,
    Device,
)
from tests.campaign.faults import KINDS
from trace_format.errors import GramophoneError

FOLDER = Path("build/campaign")
PROFILES = tuple(profiles.load())
PATHS = (BARE_METAL, MMU, LINKED, LINKED_MMU, LOG_MMU, RPI4, HIKEY960, OPTEE)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--gpu", choices=list(cases.DRIVER), action="append", help="only this GPU")
    parser.add_argument("--path", choices=PATHS, action="append", help="only this port")
    parser.add_argument("--profile", choices=PROFILES, action="append", help="only this profile, on bare metal")
    every = [*cases.CASES, *CASES, *trust.CASES, *encryption.CASES, *networks.CASES, *networks.ALONE]
    every += [*streaming.CASES, cases.OWNERS]
    names = sorted({case.name for case in every})
    parser.add_argument("--case", choices=names, action="append", help="only this case")
    parser.add_argument(
        "--fault", choices=[kind.name for kind in KINDS], action="append", help="only these faults"
    )
    parser.add_argument(
        "--function", metavar="PATTERN", action="append", help="only in functions of such a name, each instruction"
    )
    parser.add_argument(
        "--sample", action="store_true", help="few instructions of each part: seconds, not minutes"
    )
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="start no case after that; what is left out is listed"
    )
    parser.add_argument(
        "--believing", action="store_true", help="a device without the known answer: faults that stay get through"
    )
    parser.add_argument("--pairs", type=int, default=0, help="and so many pairs of faults at random, in each case")
    parser.add_argument("--only-pairs", action="store_true", help="no single faults")
    parser.add_argument("--seed", type=int, default=1, help="of the pairs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    return parser.parse_args()


def main() -> int:
    """Exit status 0: nothing got through; 1: something did, or a case shows nothing; 2: it could not be tried."""
    arguments = _arguments()
    start = time.monotonic()
    kinds = [kind for kind in KINDS if not arguments.fault or kind.name in arguments.fault]
    kinds = [] if arguments.only_pairs else kinds
    shares = dict.fromkeys(PATHS, sampling.WHOLE) | dict.fromkeys((LINKED, LINKED_MMU), sampling.SLOW_WHOLE)
    if arguments.function:
        shares = dict.fromkeys(PATHS, sampling.WHOLE)
    if arguments.sample:
        shares = dict.fromkeys(PATHS, sampling.SAMPLE)
    campaign = Campaign(
        FOLDER, shares, arguments.jobs, arguments.pairs, arguments.seed, tuple(arguments.function or ())
    )
    paths = arguments.path or ([BARE_METAL] if arguments.profile else PATHS)
    ported = [
        (path, name)
        for path in paths
        for name in (arguments.profile or PROFILES if path == BARE_METAL else (PLAIN,))
    ]
    wanted = itertools.product(ported, arguments.gpu or cases.DRIVER)

    def on_case(of: Device, case: Case, so_far: Result) -> bool:
        tried = sum(counts.tried for counts in so_far.table.rows.values())
        seconds = time.monotonic() - start
        through = len(so_far.findings)
        where = f"{of.name}: {case.title}"
        print(f"[{seconds:5.0f} s, {tried:,} faults, {through} got through] {where}", file=sys.stderr, flush=True)
        return seconds < 60 * float(arguments.minutes)

    try:
        devices = [
            campaign.believing(gpu, path) if arguments.believing else campaign.device(gpu, path, name)
            for (path, name), gpu in wanted
            if BOARDS.get(path, gpu) == gpu
        ]
        result = campaign.run(devices, arguments.case or [], kinds, on_case)
    except GramophoneError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(*result.table.lines(), sep="\n")
    for heading, items in (
        ("Got through, or contradictory", result.findings),
        ("Shows nothing", result.spoilt),
        ("Not tried, for lack of time", result.left_out),
    ):
        if items:
            print(f"\n{heading}:", *items, sep="\n  ")
    seconds = time.monotonic() - start
    print(f"\n{seconds / 60:.1f} minutes, {arguments.jobs} processes at a time")
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main())
