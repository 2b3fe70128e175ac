# SPDX-License-Identifier: BSD-2-Clause
"""Fuzz the parts that read what an attacker may have written.

    python -m tests.fuzz                              # all targets, ten minutes together
    python -m tests.fuzz --minutes 2 --target lz4     # one of them

Each target starts from its committed inputs (tests/fuzz/corpus) and from what earlier runs found (build/fuzz).
The table says how many runs there were and what its inputs execute of the fuzzed files, of lines and branches. A
finding is kept as a file; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.fuzz import parsers, python_session, session, targets
from tests.support.places import CHECKOUT

FOLDER = CHECKOUT / "build" / "fuzz"
COLUMNS = f"{'target':<22}{'runs':>12}{'runs/s':>9}{'inputs':>8}{'lines':>18}{'branches':>18}{'findings':>10}"


def main(arguments: Sequence[str]) -> int:
    names = [*targets.available(), *parsers.PARSERS]
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10, help="in all (default: 10)")
    parser.add_argument("--target", action="append", choices=names, help="only this one; may be given again")
    chosen = parser.parse_args(arguments)
    lacking = targets.missing()
    if lacking:
        print(f"error: {lacking}", file=sys.stderr)
        return 2
    selected = [name for name in names if name in (chosen.target or names)]
    # Parsers are slow, and there are many: they get a quarter of the time where all are fuzzed.
    in_c = [name for name in selected if name in targets.TARGETS]
    shares = {
        name: 1.0 if name in in_c else len(in_c) / 3 / (len(selected) - len(in_c)) or 1.0 for name in selected
    }
    seconds = {name: chosen.minutes * 60 * share / sum(shares.values()) for name, share in shares.items()}
    print(COLUMNS)
    results = []
    for name in selected:
        fuzz = session.run if name in targets.TARGETS else python_session.run
        results.append(fuzz(name, FOLDER / name, seconds[name]))
        print(results[-1], flush=True)
    runs = sum(result.runs for result in results)
    found = [path for result in results for path in result.findings]
    print(f"{runs:,} runs, {len(found)} findings")
    for path in found:
        print(f"  {path}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
