# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's own tests of its operators, compiled and run: how many are right, and why the others are not.

`python -m tests.bench.node_tests [--judge lavapipe v3d42 v3d71] [--step N | --names FILE] [--again]`: cases are
compiled on this machine, run by Mesa's driver for the CPU, then on virtual GPUs, many in one boot of the recording
machine; nothing is recorded. `--judge interpreter` is tinygrad's own. What came of a case is kept in a folder
(`--kept`) and not tried again, but with `--again` if it has not passed. `--page` runs nothing and prints what is
kept as docs/BREADTH.md has it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from host_tools.support.sandbox import OFF, VARIABLE
from tests.support import node_cases, node_page
from tests.support.node_cases import NodeCase, Prepared
from tests.support.node_guest import BATCH, GUESTS, in_guest
from tests.support.node_kept import Answer, Kept

HERE = {"lavapipe": node_cases.on_lavapipe}
INTERPRETER = "interpreter"


def main() -> int:
    """Judge cases, a row for each on standard error, and print how many came to what."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    judges = [*HERE, *GUESTS, INTERPRETER]
    parser.add_argument("--judge", nargs="+", choices=judges, default=["lavapipe"], help="in this order")
    parser.add_argument("--kept", type=Path, default=Path("build/node_tests"), help="folder of what is known")
    parser.add_argument("--step", type=int, default=1, help="each so many-th case only, by name")
    parser.add_argument("--names", type=Path, help="file with the cases' names, a line each")
    parser.add_argument("--again", action="store_true", help="what has not passed")
    parser.add_argument("--page", action="store_true", help="print docs/BREADTH.md's tables of what is kept")
    args = parser.parse_args()
    # A sandbox for each compiler and each run would take longer than these do, and all of it is ONNX's own.
    os.environ[VARIABLE] = OFF
    cases, others = node_cases.collect()
    kept = Kept(args.kept)
    if args.page:
        print(node_page.page(cases, len(others), {judge: kept.answers(judge) for judge in judges}))
        return 0
    if args.names:
        wanted = set(args.names.read_text(encoding="utf-8").split())
        cases = [case for case in cases if case.name in wanted]
    cases = cases[:: args.step]
    cases = sorted(cases, key=node_cases.effort)  # a run that is broken off leaves as many as it can
    left = {judge: _left(cases, kept.answers(judge), args.again) for judge in args.judge}
    if args.again:
        for name in {case.name for some in left.values() for case in some}:
            kept.forget(name)
    node_cases.run(cases[0])  # the others' processes have what it imports and caches
    for at in range(0, len(cases), BATCH):
        batch = cases[at : at + BATCH]
        for judge in args.judge:
            for name, answer in judged([case for case in batch if case in left[judge]], judge, kept):
                kept.add(judge, name, answer)
                print(f"{judge} {name}: {answer[0].name.lower()} {answer[1][:200]}", file=sys.stderr, flush=True)
    for judge in args.judge:
        found = kept.answers(judge)
        count = Counter(found[case.name][0].value for case in cases)
        print(f"{judge}: {len(cases)} cases:", *(f"{number} {why};" for why, number in count.most_common()))
    return 0


def _left(cases: Sequence[NodeCase], known: dict[str, Answer], again: bool) -> list[NodeCase]:
    """Cases that are to be judged."""
    passed = node_cases.Why.PASSED
    return [case for case in cases if case.name not in known or (again and known[case.name][0] is not passed)]


def judged(cases: Sequence[NodeCase], judge: str, kept: Kept) -> Iterator[tuple[str, Answer]]:
    """Name and what came of it, of each case; a crash ends no other."""
    ready = []
    for case in cases:
        if judge == INTERPRETER:
            yield case.name, node_cases.apart(node_cases.interpreted, case)
            continue
        if (found := kept.compiled(case)) is None:
            found = node_cases.apart(node_cases.prepared, case)
            kept.keep(case, found)
        if not isinstance(found, Prepared):
            yield case.name, found
            continue
        if judge in HERE:
            yield case.name, HERE[judge](found)
        else:
            ready.append(found)
    yield from in_guest(ready, judge).items()


if __name__ == "__main__":
    sys.exit(main())
