# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's own tests of its operators, compiled and run: how many are right, and why the others are not.

`python -m tests.bench.node_tests [--judge lavapipe|v3d42|v3d71|interpreter] [--first N] [--count M] [--json]`. The
interpreter is tinygrad's own, the measure of what the compiler can be asked for. On a virtual GPU many cases run
in one boot of the recording machine, and nothing is recorded. Rows are printed as they come, then the table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from rich.console import Console
from rich.table import Table

from host_tools.support.sandbox import OFF, VARIABLE
from tests.support import node_cases
from tests.support.node_cases import NodeCase, Prepared, Why
from tests.support.node_guest import BATCH, in_guest

GUESTS = ("v3d42", "v3d71")
JUDGES = {"lavapipe": node_cases.run, "interpreter": node_cases.interpreted}
WORKERS = 4
OTHERS = "text, sequences, optional or complex values, types that NumPy has not"
Row = tuple[str, Why, str]


def rows(cases: Sequence[NodeCase], judge: str) -> Iterator[Row]:
    """Name, what came of it, and in which words, of each case."""
    # A sandbox for each compiler and each run would take longer than these do, and all of it is ONNX's own.
    os.environ[VARIABLE] = OFF
    if cases:
        node_cases.run(cases[0])  # the others' processes have what it imports and caches
    with ThreadPoolExecutor(WORKERS) as pool:
        if judge in JUDGES:
            for case, found in zip(
                cases, pool.map(lambda case: node_cases.apart(JUDGES[judge], case), cases), strict=True
            ):
                yield case.name, *found
            return
        for first in range(0, len(cases), BATCH):
            batch = cases[first : first + BATCH]
            made = list(pool.map(lambda case: node_cases.apart(node_cases.prepared, case), batch))
            left = in_guest([ready for ready in made if isinstance(ready, Prepared)], judge)
            for case, ready in zip(batch, made, strict=True):
                yield case.name, *(left[case.name] if isinstance(ready, Prepared) else ready)


def main() -> int:
    """Print a row for each case, then the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge", choices=[*JUDGES, *GUESTS], default="lavapipe")
    parser.add_argument("--first", type=int, default=0, help="number of the first case, by name")
    parser.add_argument("--count", type=int, help="of cases; all without it")
    parser.add_argument("--step", type=int, default=1, help="each so many-th case only")
    parser.add_argument("--names", help="file with the cases' names, a line each")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    args = parser.parse_args()
    cases, others = node_cases.collect()
    if args.names:
        with open(args.names, encoding="utf-8") as file:
            wanted = set(file.read().split())
        cases = [case for case in cases if case.name in wanted]
    last = None if args.count is None else args.first + args.count * args.step
    cases = cases[args.first : last : args.step]
    found = []
    for name, why, said in rows(cases, args.judge):
        found.append((name, why, said))
        print(f"{len(found):5} {name}: {why.name.lower()} {said[:200]}", file=sys.stderr, flush=True)
    count = Counter(why for _, why, _ in found)
    if args.json:
        document = {"judge": args.judge, "numeric": len(cases), "others": len(others)}
        print(json.dumps(document | {"cases": [[name, why.name.lower(), said] for name, why, said in found]}))
        return 0
    table = Table(title=f"{len(cases)} of ONNX's node tests on {args.judge}")
    table.add_column("what came of it")
    table.add_column("cases", justify="right")
    for why, number in count.most_common():
        table.add_row(why.value, str(number))
    table.add_row(f"not run: {OTHERS}", str(len(others)))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
