# SPDX-License-Identifier: BSD-2-Clause
"""Runs Frama-C's WP or Eva over one unit, and reads what it could not prove."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tee_replayer import features
from tee_replayer.features import operators
from tee_replayer.generator import conditionals, target
from tee_replayer.generator.status import CORE
from tests.proof.splice import ProofError, parse, splice
from tests.proof.units import Defect, Unit
from trace_format import profile
from trace_format.emit import GENERATED
from trace_format.operators import OPERATORS

HERE = Path(__file__).parent
FOLDERS = (CORE, *(path for path in sorted(features.HERE.iterdir()) if path.is_dir()))
TOOLS = {"frama-c": "frama-c-base", "why3": "why3", "cvc4": "cvc4"}
# Seconds of wall time: what is proved takes less than seven on a free machine.
GOAL_SECONDS, DEFECT_SECONDS, RUN_SECONDS = 120, 3, 1800
_GOAL = re.compile(r"^\[wp\] \[(?:[^\]]*)\] Goal (\S+) : (\w+)", re.MULTILINE)
_TOTAL = re.compile(r"^\[wp\] Proved goals: +(\d+) / (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """Of one run: functions and goals, the names of those not proved, seconds."""

    functions: int
    goals: int
    unproved: tuple[str, ...]
    seconds: float


def check_tools() -> None:
    """ProofError, with the packages, when a tool is missing."""
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if missing:
        raise ProofError(
            f"the proof needs packages that are not installed: {' '.join(missing)} "
            "(apt-get install; Debian 12 has all of them, Debian 13 has no frama-c-base)"
        )


def configure(folder: Path) -> dict[str, str]:
    """Environment in which Why3 knows the provers, without a file in the user's home."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"HOME": str(folder), "WHY3CONFIG": str(folder / "why3.conf")}
    _run(["why3", "config", "detect"], environment)
    return environment


def functions(source: str) -> list[str]:
    """Names of the functions that a shipped C file defines."""
    source = re.sub(r"__attribute__\(\(\w+\)\) ", "", source)
    return re.findall(r"^(?!static const)\w[\w *]*?\b(\w+)\([^;{]*\)\n\{", source, re.MULTILINE) + re.findall(
        r"^static const [\w *]*?\b(\w+)\([^;{]*\)\n\{", source, re.MULTILINE
    )


def variant(text: str, macros: dict[str, int], left_out: str = "\n") -> str:
    """A file as a replayer with these options has it; lines of a shipped file keep their numbers."""
    return conditionals.resolve(text, set(re.findall(r"\bGRAMOPHONE_\w+", text)), macros, left_out)


def prepare(unit: Unit, gpu: str, folder: Path, defect: Defect | None = None) -> list[str]:
    """Put the file that a unit proves, with its annotations, into a folder; names of the functions to prove.

    Raises:
        ProofError: an annotation has no place, or the defect's text is not there.
    """
    path = CORE.parent / unit.source
    shipped = path.read_text()
    text = variant(shipped, unit.macros)
    defined = functions(text)
    if gone := {*unit.left_out} - {*functions(shipped)} | {*unit.only} - {*defined}:
        raise ProofError(f"{path.name}: named for the proof, but not there (any more): {', '.join(sorted(gone))}")
    names = [name for name in unit.only or defined if name not in unit.left_out]
    if defect:
        if text.count(defect.text) != 1:
            raise ProofError(f"{path.name}: expected once, for a planted defect: {defect.text!r}")
        text, names = text.replace(defect.text, defect.instead), [defect.function]
    annotations = HERE / unit.tool / f"{unit.stem}.acsl"
    if annotations.exists():
        blocks = parse(variant(annotations.read_text(), unit.macros, left_out=""), annotations.name)
        text = splice(text, blocks, path.name)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "shipped").mkdir(parents=True)
    (folder / "shipped" / path.name).write_text(text)
    (folder / "gr_target.h").write_text(target.header(profile.load(gpu)))
    (folder / "gr_operators.h").write_text(operators.define(OPERATORS))
    return names


def harness(unit: Unit) -> Path:
    """What includes the file that a unit proves: contracts, or calls with unknown values."""
    return HERE / unit.tool / f"{unit.stem}.c"


def options(unit: Unit, folder: Path) -> list[str]:
    """Of the preprocessor, for a harness, once the folder is prepared."""
    includes = [f"-I{part}" for part in (folder, *FOLDERS, GENERATED, HERE / "wp", HERE / "eva")]
    return includes + [f"-D{name}={value}" for name, value in unit.macros.items()]


def prove(unit: Unit, gpu: str, folder: Path, environment: dict[str, str], defect: Defect | None = None) -> Result:
    """Prove a unit, or (WP) the function that a defect is in.

    Raises:
        ProofError: an annotation has no place, the defect's text is not there, or Frama-C failed.
    """
    names = prepare(unit, gpu, folder, defect)
    command = ["frama-c", "-c11", "-machdep", "gcc_x86_64"]
    command += [f"-cpp-extra-args={' '.join(options(unit, folder))}", str(harness(unit))]
    if unit.tool == "wp":
        command += ["-wp", "-wp-rte", "-rte-no-pointer-call", "-wp-fct", ",".join(names), "-wp-prover", "cvc4"]
        command += ["-wp-model", unit.model, "-wp-par", "2", "-wp-cache", "none"]
        command += ["-wp-timeout", str(DEFECT_SECONDS if defect else GOAL_SECONDS)]
    else:
        command += ["-eva", "-eva-precision", "5", "-eva-slevel", str(unit.slevel), "-warn-special-float", "none"]
        if unit.inlined:
            command += ["-inline-calls", ",".join(unit.inlined)]
    start = time.monotonic()
    said = _run(command, environment)
    seconds = time.monotonic() - start
    (folder / "log").write_text(said)
    goals, unproved = (_read_wp if unit.tool == "wp" else _read_eva)(said, folder / "log")
    return Result(len(names), goals, unproved, seconds)


def _read_wp(said: str, log: Path) -> tuple[int, tuple[str, ...]]:
    """Number of goals, and the names of those not proved."""
    total = _TOTAL.search(said)
    if total is None:
        raise ProofError(f"frama-c printed no number of goals; see {log}")
    unproved = tuple(sorted({name for name, verdict in _GOAL.findall(said) if verdict not in ("Valid", "Passed")}))
    if int(total[2]) - int(total[1]) != len(unproved):
        raise ProofError(f"{total[0]}, but {len(unproved)} goals are named; see {log}")
    return int(total[2]), unproved


def _read_eva(said: str, log: Path) -> tuple[int, tuple[str, ...]]:
    """Number of statements and assertions, and what is not certain: each alarm by its text.

    Raises:
        ProofError: statements that the analysis does not reach, for then it says nothing of them.
    """
    reached = re.search(r"(\d+) statements reached \(out of (\d+)\)", said)
    assertions = re.search(r"Assertions +(\d+) valid +\d+ unknown +\d+ invalid +(\d+) total", said)
    alarms = re.search(r"^  (\d+) alarms? generated", said, re.MULTILINE)
    if reached is None or assertions is None or alarms is None:
        raise ProofError(f"frama-c printed no summary; see {log}")
    texts = re.findall(r"^\[eva:alarm\] \S+?(\w+\.[ch]):\d+: Warning: \n((?:  .*\n)+)", said, re.MULTILINE)
    unproved = {f"{file}:{'_'.join(text.split())}" for file, text in texts}
    if int(reached[1]) < int(reached[2]):
        unproved.add(f"{int(reached[2]) - int(reached[1])}_statements_not_reached")
    if not unproved and (int(alarms[1]) or assertions[1] != assertions[2]):
        raise ProofError(f"{alarms[0].strip()}, but none is named; see {log}")
    return int(reached[2]) + int(assertions[2]), tuple(sorted(unproved))


def _run(command: list[str], environment: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=RUN_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise ProofError(f"{command[0]} took more than {RUN_SECONDS} s") from error
    if done.returncode:
        last = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-6:]
        raise ProofError(f"{command[0]} failed:\n" + "\n".join(last))
    return done.stdout
