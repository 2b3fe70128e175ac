# SPDX-License-Identifier: BSD-2-Clause
"""`make prove`: prove the units, compare what is left with the committed list, try the planted defects."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path

from tests.proof import prover
from tests.proof.splice import ProofError
from tests.proof.units import DEFECTS, UNITS, Defect, Unit

WORK = Path("build/proof")
ALARMS = prover.HERE / "alarms.txt"
ROW = "{:<9} {:<9} {:<5} {:>9} {:>6} {:>5} {:>7} {:>8}"


def explained(text: str) -> dict[tuple[str, str, str], str]:
    """The committed list: (unit, GPU, goal) and why; ProofError for a line without a reason."""
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(\S+) (\S+) (\S+): (\S.*)", line)
        if match is None:
            raise ProofError(f"{ALARMS.name}: expected 'UNIT GPU GOAL: reason', found {line!r}")
        found[match[1], match[2], match[3]] = match[4]
    return found


def admitted() -> int:
    """Facts that the proofs take without proof; docs/adr/0014-proof.md says why each holds."""
    files = [path for path in (prover.HERE / "wp").iterdir() if path.suffix in (".c", ".h", ".acsl")]
    return sum(len(re.findall(r"\badmit\b", path.read_text())) for path in files)


def main() -> int:
    """Exit status 0: all is proved or explained, and each defect was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("--unit", action="append", help="only this one (repeatable)")
    parser.add_argument("--no-defects", action="store_true", help="leave out the planted defects")
    options = parser.parse_args()
    names = {unit.name for unit in UNITS}
    if unknown := set(options.unit or ()) - names:
        print(
            f"error: no unit {', '.join(sorted(unknown))}; there are: {', '.join(sorted(names))}", file=sys.stderr
        )
        return 2
    try:
        return _prove(
            [unit for unit in UNITS if not options.unit or unit.name in options.unit], options.no_defects
        )
    except ProofError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _prove(units: list[Unit], no_defects: bool) -> int:
    prover.check_tools()
    environment = prover.configure(WORK.resolve())
    listed = explained(ALARMS.read_text())
    wrong = []
    left_open: dict[tuple[str, str], set[str]] = {}
    print(ROW.format("unit", "GPU", "tool", "functions", "goals", "open", "listed", "seconds"), flush=True)
    for unit in units:
        for gpu in unit.gpus:
            run = prover.prove(unit, gpu, WORK.resolve() / f"{unit.name}-{gpu}", environment)
            unproved = left_open[unit.name, gpu] = set(run.unproved)
            known = {goal for name, target, goal in listed if (name, target) == (unit.name, gpu)}
            left = [len(unproved), len(unproved & known)]
            print(
                ROW.format(unit.name, gpu, unit.tool, run.functions, run.goals, *left, f"{run.seconds:.0f}"),
                flush=True,
            )
            wrong += [
                f"{unit.name} {gpu}: not proved, and not in {ALARMS.name}: {g}" for g in sorted(unproved - known)
            ]
            wrong += [f"{unit.name} {gpu}: in {ALARMS.name}, but proved: {g}" for g in sorted(known - unproved)]
    by_name = {unit.name: unit for unit in units}
    controls: dict[tuple[str, str, str], set[str]] = {}
    tried = [d for d in DEFECTS if d.unit in by_name and not no_defects]
    found = 0
    for defect in tried:
        unit, place = by_name[defect.unit], (defect.unit, defect.gpu, defect.function)
        if unit.tool == "eva":  # which has no limit of time
            controls[place] = left_open[unit.name, defect.gpu]
        elif place not in controls:  # open in as little time without a defect: it says nothing of one
            controls[place] = _open(unit, replace(defect, instead=defect.text), environment)
        if _open(unit, defect, environment) - controls[place]:
            found += 1
        else:
            wrong.append(f"{defect.unit} {defect.gpu}: still proved without {defect.text!r}")
    print(f"admitted facts: {admitted()}")
    print(f"planted defects: {found} of {len(tried)} found")
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


def _open(unit: Unit, defect: Defect, environment: dict[str, str]) -> set[str]:
    """Goals left open with a planted defect."""
    return set(prover.prove(unit, defect.gpu, WORK.resolve() / "defect", environment, defect).unproved)


if __name__ == "__main__":
    sys.exit(main())
