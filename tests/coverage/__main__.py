# SPDX-License-Identifier: BSD-2-Clause
"""Measure and compare coverage.

    python -m tests.coverage run NAME [arguments for pytest]
    python -m tests.coverage compare NAME OTHER
    python -m tests.coverage floor [NAME]

`run` runs the tests and keeps the result as build/coverage/NAME.json; `compare` lists what OTHER executed and NAME
did not; its exit status is 1 if there is anything. `floor` compares a result with what tests/coverage/floor.toml
asks of some folders, and its exit status is 1 if one has less; without NAME it first runs the tests that are named
there. Python is counted in all processes, the command's among them. C is counted where gcc made code of this
machine: the replayer's core and drivers as a library, the virtual GPUs, the plugin in QEMU. Code that runs in
Unicorn or in QEMU's guests is not counted; most of it is the same C.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tests.support.places import CHECKOUT

FOLDER = CHECKOUT / "build" / "coverage"
FLOOR = CHECKOUT / "tests/coverage/floor.toml"
OBJECTS = FOLDER / "c"  # what gcc notes of each compilation, with the counts beside it
C_FOLDERS = ("host_tools", "tee_replayer", "baremetal")
# Takes gcc's place. Each compilation has a folder for its notes: the objects' own folders are temporary. Without
# -O3, which unrolls and copies loops, there are about as many branches as in the source.
WRAPPER = """#!/bin/sh
# gcc, which counts what is executed
exec gcc --coverage -fprofile-abs-path -fprofile-update=atomic "$@" -O1 -dumpdir "$(mktemp -d "{folder}/XXXXXX")/"
"""
Points = dict[str, dict[str, list[str]]]  # file: {"all": names of lines and branches, "hit": those executed}


def compiler() -> Path:
    """The wrapper, for the C sources as they are: notes of others name lines that are not there any more.

    Its path has a random part, since builds are cached by it and need the notes of their time.
    """
    digest = hashlib.sha256(WRAPPER.encode())
    for path in sorted(path for name in C_FOLDERS for path in (CHECKOUT / name).rglob("*.[ch]")):
        digest.update(path.read_bytes())
    folder = OBJECTS / digest.hexdigest()[:16]
    if not folder.exists():
        shutil.rmtree(OBJECTS, ignore_errors=True)
        folder.mkdir(parents=True)
    known = sorted(folder.glob("*/cc"))
    if known:
        return known[0]
    wrapper = Path(tempfile.mkdtemp(dir=folder)) / "cc"
    wrapper.write_text(WRAPPER.format(folder=folder))
    wrapper.chmod(0o755)
    return wrapper


def measure(arguments: list[str]) -> int:
    """Run pytest; its exit status."""
    for old in (*FOLDER.glob("python*"), *OBJECTS.rglob("*.gcda")):
        old.unlink()
    environment = {**os.environ, "CC": str(compiler())}
    command = [
        sys.executable,
        "-m",
        "coverage",
        "run",
        "-m",
        "pytest",
        "-p",
        "tests.coverage.patience",
        *arguments,
    ]
    status = subprocess.run(command, cwd=CHECKOUT, env=environment, check=False).returncode
    subprocess.run([sys.executable, "-m", "coverage", "combine", "--quiet"], cwd=CHECKOUT, check=True)
    return status


def python_points() -> Points:
    """Lines and branches of the Python files."""
    file = FOLDER / "python.json"
    command = [sys.executable, "-m", "coverage", "json", "--quiet", "-o", str(file)]
    subprocess.run(command, cwd=CHECKOUT, check=True)
    points: Points = {}
    for name, found in json.loads(file.read_text())["files"].items():
        hit = [
            *map(str, found["executed_lines"]),
            *(f"{at}->{to}" for at, to in found["executed_branches"]),
        ]
        missing = [*map(str, found["missing_lines"]), *(f"{at}->{to}" for at, to in found["missing_branches"])]
        points[name] = {"all": [*hit, *missing], "hit": hit}
    return points


def c_points() -> Points:
    """Lines and branches of the C files."""
    file = FOLDER / "c.json"
    filters = [f"--filter={CHECKOUT / name}/" for name in C_FOLDERS]
    options = ["--merge-mode-functions=separate", "--gcov-ignore-errors=all", "--json", str(file)]
    command = [sys.executable, "-m", "gcovr", "--root", str(CHECKOUT), *filters, *options, str(OBJECTS)]
    subprocess.run(command, cwd=OBJECTS, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    points: Points = {}
    for found in json.loads(file.read_text())["files"]:
        counts = {str(line["line_number"]): line["count"] for line in found["lines"]}
        for line in found["lines"]:
            for index, branch in enumerate(line["branches"]):
                counts[f"{line['line_number']}->{index}"] = branch["count"]
        points[found["file"]] = {"all": list(counts), "hit": [name for name, count in counts.items() if count]}
    return points


def table(points: Points, title: str, group: Callable[[str], str]) -> Iterable[str]:
    """A line for each group of files: lines and branches executed, and of how many."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for file, found in points.items():
        for name in (group(file), "all"):
            for part, names in enumerate((found["hit"], found["all"])):
                branches = sum("->" in point for point in names)
                sums[name][part] += len(names) - branches
                sums[name][2 + part] += branches
    yield f"{title:<44}{'lines':>20}{'branches':>22}"
    for name in (*sorted(sums.keys() - {"all"}), "all"):
        cells = (
            f"{hit:>8,} of {every:>6,} {100 * hit / max(every, 1):4.0f}%"
            for hit, every in zip(sums[name][::2], sums[name][1::2], strict=True)
        )
        yield f"{name:<42}" + "".join(cells)


def kept(name: str) -> dict[str, Points]:
    """What `run` kept."""
    points: dict[str, Points] = json.loads((FOLDER / f"{name}.json").read_text())
    return points


def run(name: str, arguments: list[str]) -> int:
    """Measure, keep the result and print the tables."""
    if shutil.which("gcc") is None:
        sys.exit("error: no gcc, whose counters are used: apt-get install gcc")
    status = measure(arguments)
    points = {"python": python_points(), "c": c_points()}
    (FOLDER / f"{name}.json").write_text(json.dumps(points))
    print(*table(points["python"], "Python, by folder", lambda file: str(Path(file).parent)), sep="\n")
    print(*table(points["c"], "\nC, by file", str), sep="\n")
    return status


def compare(name: str, other: str) -> int:
    """Print what the other run executed and this one did not; 1 if there is anything."""
    lost = 0
    for kind, points in kept(other).items():
        mine = kept(name)[kind]
        for file, found in sorted(points.items()):
            missing = set(found["hit"]) - set(mine.get(file, {"hit": []})["hit"])
            lost += len(missing)
            if missing:
                print(f"{file}: {', '.join(sorted(missing))}")
    print(f"{lost} lines and branches that {other} executes, {name} does not")
    return int(lost > 0)


def below(points: Points, floors: Mapping[str, Sequence[float]]) -> list[str]:
    """What each folder lacks of its floor: per cent of lines and of branches."""
    found = []
    for folder, floor in floors.items():
        files = [one for file, one in points.items() if str(Path(file).parent) == folder]
        for what, least in zip(("lines", "branches"), floor, strict=True):
            hit, every = (
                sum(("->" in point) == (what == "branches") for one in files for point in one[part])
                for part in ("hit", "all")
            )
            share = 100 * hit / every if every else 0
            if share < least:
                found.append(f"{folder}: expected at least {least} % of its {what}, found {share:.1f} %")
    return found


def floor(name: str | None) -> int:
    """Hold a result to the floor; None: of the floor's own tests, which are run."""
    said = tomllib.loads(FLOOR.read_text(encoding="utf-8"))
    if name is None:
        name = FLOOR.stem
        if status := run(name, ["-q", "-n", "2", "--dist", "worksteal", *said["tests"]]):
            return status
    missing = below(kept(name)["python"], said["python"])
    for line in missing:
        print(line)
    return int(bool(missing))


def main(arguments: list[str]) -> int:
    match arguments:
        case ["run", name, *rest]:
            return run(name, rest)
        case ["compare", name, other]:
            return compare(name, other)
        case ["floor", *rest] if len(rest) < 2:
            return floor(rest[0] if rest else None)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
