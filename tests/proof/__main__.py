# SPDX-License-Identifier: BSD-2-Clause
"""`make prove`: prove the units as each profile has them, compare what is left with the committed list, try the
planted defects. What several profiles have in the same way is proved once.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from tee_replayer.generator import profiles
from tests.proof import prover
from tests.proof.prover import Result, Run
from tests.proof.splice import ProofError
from tests.proof.units import DEFECTS, UNITS, Defect

WORK = Path("build/proof")
ALARMS = prover.HERE / "alarms.txt"
ROW = "{:<9} {:<9} {:<5} {:>9} {:>6} {:>5} {:>7} {:>8}"
PROFILE = "{:<9} {:>5} {:>6} {:>6} {:>5}"


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
    names = sorted({unit.name for unit in UNITS})
    parser.add_argument(
        "--unit", choices=names, metavar="UNIT", action="append", help="only this one (repeatable)"
    )
    parser.add_argument(
        "--profile", choices=list(profiles.load()), action="append", help="only as this one has it (repeatable)"
    )
    parser.add_argument("--no-defects", action="store_true", help="leave out the planted defects")
    parser.add_argument("--again", action="store_true", help="prove also what an earlier run has proved")
    options = parser.parse_args()
    units = [unit for unit in UNITS if not options.unit or unit.name in options.unit]
    try:
        prover.check_tools()
        proof = Proof(prover.configure(WORK.resolve()), options.again)
        proof.prove(prover.runs(units, options.profile or list(profiles.load())), not options.profile)
        if not options.no_defects:
            proof.plant([defect for defect in DEFECTS if defect.unit in {unit.name for unit in units}])
    except ProofError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for line in proof.wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if proof.wrong else 0


class Proof:
    """Runs of a proof, and what is wrong with them.

    Args:
        environment: of the tools.
        again: whether to prove also what is known from an earlier run: a file in WORK, by the run's key.
    """

    def __init__(self, environment: dict[str, str], again: bool) -> None:
        self._environment, self._again = environment, again
        self._results: dict[prover.Run, Result] = {}
        self.wrong: list[str] = []

    def prove(self, runs: list[Run], all_profiles: bool) -> None:
        """Prove what is not the same as another run, and print all of it, by run and by profile."""
        same: dict[str, list[Run]] = {}
        with tempfile.TemporaryDirectory() as folder:
            for run in runs:
                same.setdefault(prover.key(run, Path(folder) / "key"), []).append(run)
        print(ROW.format("unit", "GPU", "tool", "functions", "goals", "open", "listed", "seconds"), "profiles")
        listed = explained(ALARMS.read_text())
        left: dict[tuple[str, str], set[str]] = {}
        for key, group in same.items():
            run, result = group[0], self._proved(key, group[0])
            self._results |= dict.fromkeys(group, result)
            known = {goal for name, target, goal in listed if (name, target) == (run.unit.name, run.gpu)}
            unproved = {*result.unproved}
            left.setdefault((run.unit.name, run.gpu), set()).update(unproved)
            counts = (result.functions, result.goals, len(unproved), len(unproved & known))
            row = ROW.format(run.unit.name, run.gpu, run.unit.tool, *counts, f"{result.seconds:.0f}")
            print(row, " ".join(each.profile for each in group), flush=True)
            self.wrong += [
                f"{run.words}: not proved, and not in {ALARMS.name}: {g}" for g in sorted(unproved - known)
            ]
        for (name, gpu), unproved in left.items() if all_profiles else ():
            known = {goal for unit, target, goal in listed if (unit, target) == (name, gpu)}
            self.wrong += [f"{name} {gpu}: in {ALARMS.name}, but proved: {g}" for g in sorted(known - unproved)]
        self._print_profiles(runs)

    def _print_profiles(self, runs: list[Run]) -> None:
        print(f"\n{len({*self._results.values()})} proofs")
        print(PROFILE.format("profile", "runs", "goals", "proved", "open"))
        for name in dict.fromkeys(run.profile for run in runs):
            results = [self._results[run] for run in runs if run.profile == name]
            goals, left = (
                sum(found) for found in zip(*((r.goals, len(r.unproved)) for r in results), strict=True)
            )
            print(PROFILE.format(name, len(results), goals, goals - left, left))

    def _proved(self, key: str, run: Run) -> Result:
        """What a run proves; known from an earlier one, if the tools had the same to prove there."""
        file = WORK / "proved" / f"{key}.json"
        if file.exists() and not self._again:
            known = json.loads(file.read_text())
            return Result(**known | {"unproved": tuple(known["unproved"])})
        result = prover.prove(run, WORK.resolve() / f"{run.unit.name}-{run.gpu}-{run.profile}", self._environment)
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(asdict(result)))
        return result

    def plant(self, defects: list[Defect]) -> None:
        """Plant each defect once, in the first profile whose variant of the file has its place."""
        controls: dict[tuple[Run, str], set[str]] = {}
        found = 0
        for defect in defects:
            run = next((run for run in self._results if prover.has_place(run, defect)), None)
            if run is None:
                continue  # of a profile that is left out
            place = run, defect.function
            if run.unit.tool == "eva":  # which has no limit of time
                controls[place] = {*self._results[run].unproved}
            elif place not in controls:  # open in as little time without a defect: it says nothing of one
                controls[place] = self._open(run, replace(defect, instead=defect.text))
            if self._open(run, defect) - controls[place]:
                found += 1
            else:
                self.wrong.append(f"{run.words}: still proved without {defect.text!r}")
        print(f"admitted facts: {admitted()}\nplanted defects: {found} of {len(defects)} found")

    def _open(self, run: Run, defect: Defect) -> set[str]:
        """Goals left open with a planted defect."""
        return {*prover.prove(run, WORK.resolve() / "defect", self._environment, defect).unproved}


if __name__ == "__main__":
    sys.exit(main())
