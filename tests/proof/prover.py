# SPDX-License-Identifier: BSD-2-Clause
"""Runs Frama-C's WP or Eva over one unit, and reads what it could not prove."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from tee_replayer import features
from tee_replayer.generator import amalgamate, conditionals, profiles, target
from tee_replayer.generator.status import CORE
from tests.proof.needed import MARK, needed
from tests.proof.splice import ProofError, parse, splice
from tests.proof.units import Defect, Unit
from tests.support import profile_sources
from tests.support.places import CHECKOUT
from trace_format import profile
from trace_format.emit import GENERATED

HERE = Path(__file__).parent
FOLDERS = (CORE, *(path for path in sorted(features.HERE.iterdir()) if path.is_dir()))
TOOLS = {"frama-c": "frama-c-base", "why3": "why3", "cvc4": "cvc4"}
# Seconds of wall time: what is proved takes at most 25 on a busy machine, most of it less than one.
GOAL_SECONDS, DEFECT_SECONDS, RUN_SECONDS = 120, 3, 1800
_GOAL = re.compile(r"^\[wp\] \[(?:[^\]]*)\] Goal (\S+) : (\w+)", re.MULTILINE)
_ANNOTATION = re.compile(r"/\*@(.*?)\*/|//@(.*?)$", re.DOTALL | re.MULTILINE)
_TOTAL = re.compile(r"^\[wp\] Proved goals: +(\d+) / (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """A unit for a GPU, as a profile's replayer has it."""

    unit: Unit
    gpu: str
    profile: str

    @property
    def words(self) -> str:
        """For messages."""
        return f"{self.unit.name} {self.gpu} {self.profile}"

    @property
    def defines(self) -> str:
        """The replayer's options."""
        return profile_sources.defines(profiles.named(self.profile).features)

    @property
    def options(self) -> set[str]:
        """Their names."""
        return amalgamate.options(self.defines)


def runs(units: Sequence[Unit], names: Sequence[str]) -> list[Run]:
    """All runs of units in profiles whose replayers have their files, and that are not named as not proved."""
    found = []
    for unit in units:
        for name in names:
            has = profiles.named(name).features
            files = [
                *profile_sources.sources(has),
                *(target.driver_source(profile.load(gpu)) for gpu in unit.gpus),
            ]
            fits = not {*unit.not_with} & {*has.names} and {*unit.only_with} <= {*has.names}
            if CORE.parent / unit.source in files and fits:
                found += [Run(unit, gpu, name) for gpu in unit.gpus]
    return found


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


def variant(text: str, on: Collection[str], left_out: str = "\n") -> str:
    """A file as a replayer with these options has it; lines of a shipped file keep their numbers."""
    return conditionals.resolve(text, set(re.findall(r"\bGRAMOPHONE_\w+", text)), on, left_out)


def prepare(run: Run, folder: Path, defect: Defect | None = None) -> list[str]:
    """Put the file that a run proves, with its annotations, into a folder; names of the functions to prove.

    Raises:
        ProofError: an annotation has no place, or the defect's text is not there.
    """
    unit, path, on = run.unit, CORE.parent / run.unit.source, run.options
    shipped = path.read_text()
    text = variant(shipped, on)
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
        blocks = parse(variant(annotations.read_text(), on, left_out=""), annotations.name)
        text = splice(text, blocks, path.name)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "shipped").mkdir(parents=True)
    (folder / "shipped" / path.name).write_text(text)
    (folder / "gr_target.h").write_text(target.header(profile.load(run.gpu)))
    (folder / profile_sources.OPTIONS).write_text(run.defines)
    return names


def harness(unit: Unit) -> Path:
    """What includes the file that a unit proves: contracts, or calls with unknown values."""
    return HERE / unit.tool / f"{unit.stem}.c"


def options(unit: Unit, folder: Path) -> list[str]:
    """Of the preprocessor, for a harness, once the folder is prepared."""
    includes = [f"-I{part}" for part in (folder, *FOLDERS, GENERATED, HERE / "wp", HERE / "eva")]
    machine = [f"-D{name}={value}" for name, value in unit.macros.items()]
    return [*includes, *machine, "-include", str(folder / profile_sources.OPTIONS)]


def marked(unit: Unit, folder: Path) -> str:
    """The preprocessed harness, once the folder is prepared, with annotations between marks (needed.py)."""
    (folder / "marked" / "shipped").mkdir(parents=True)
    for path in (harness(unit), *HERE.glob("*/*.h"), *folder.glob("shipped/*.c")):
        copy = folder / "marked" / ("shipped" if path.parent.name == "shipped" else "") / path.name
        copy.write_text(_ANNOTATION.sub(rf"{MARK}\1\2{MARK}", path.read_text()))
    (folder / "marked" / "__fc_builtin.h").touch()
    command = ["gcc", "-E", "-P", "-w", *options(unit, folder), str(folder / "marked" / f"{unit.stem}.c")]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def has_place(run: Run, defect: Defect) -> bool:
    """Whether a run's variant of the file has what a defect changes."""
    text = variant((CORE.parent / run.unit.source).read_text(), run.options)
    return (run.unit.name, run.gpu) == (defect.unit, defect.gpu) and text.count(defect.text) == 1


def key(run: Run, folder: Path) -> str:
    """What is the same for runs that prove the same.

    Args:
        run: what.
        folder: for files.
    """
    names = prepare(run, folder)
    text = needed(marked(run.unit, folder), {"main"} if run.unit.tool == "eva" else {*names})
    command = _command(run.unit, folder, names, GOAL_SECONDS)
    said = "\n".join([text, *command]).replace(str(folder), "").replace(str(CHECKOUT), "")
    return hashlib.sha256(said.encode()).hexdigest()


def _command(unit: Unit, folder: Path, names: Sequence[str], seconds: int) -> list[str]:
    command = ["frama-c", "-c11", "-machdep", "gcc_x86_64"]
    command += [f"-cpp-extra-args={' '.join(options(unit, folder))}", str(harness(unit))]
    if unit.tool == "wp":
        command += ["-wp", "-wp-rte", "-rte-no-pointer-call", "-wp-fct", ",".join(names), "-wp-prover", "cvc4"]
        command += ["-wp-model", unit.model, "-wp-par", "2", "-wp-cache", "none", "-wp-timeout", str(seconds)]
    else:
        command += ["-eva", "-eva-precision", "5", "-eva-slevel", str(unit.slevel), "-warn-special-float", "none"]
        if unit.unroll:
            command += ["-eva-auto-loop-unroll", str(unit.unroll)]
        if unit.inlined:
            command += ["-inline-calls", ",".join(unit.inlined)]
    return command


def prove(run: Run, folder: Path, environment: dict[str, str], defect: Defect | None = None) -> Result:
    """Prove a unit, or (WP) the function that a defect is in.

    Raises:
        ProofError: an annotation has no place, the defect's text is not there, or Frama-C failed.
    """
    unit, names = run.unit, prepare(run, folder, defect)
    command = _command(unit, folder, names, DEFECT_SECONDS if defect else GOAL_SECONDS)
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
