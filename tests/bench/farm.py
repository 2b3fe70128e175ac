# SPDX-License-Identifier: BSD-2-Clause
"""A project on one computer and on a farm: `python -m tests.bench.farm [--networks N] [--kills N] [--json]`.

LeNet's recordings for three GPUs, each under N names, are built, signed, reported on and listed (sbom): by one
process, one and two tasks at a time, by two and four workers, and by four of which one is killed at random times.
Each begins with an empty cache and an empty store. Exit status 1 unless all bytes are the same and so many workers
were killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from host_tools.demo import RAW
from host_tools.support.unchanged import EPOCH
from tests.support.places import CHECKOUT

RECORDINGS = {
    "v3d42": RAW,
    "v3d71": CHECKOUT / "tests/support/lenet.v3d71.raw.gtr",
    "mali_g71": CHECKOUT / "tests/support/lenet.mali_g71.raw.gtr",
}
TASKS = 4 * len(RECORDINGS)  # of a network
# The virtual Mali does not follow data, which its report warns of.
ALLOWED = '[[allow]]\nrule = "GR700"\nreason = "what jobs do with data is not what is measured"\n'
SEED = 20261127
GRAMOPHONE = (sys.executable, "-m", "host_tools.cli")
WORKER = "multiprocessing.spawn"  # in the command line of Dask's workers on this computer


@dataclass(frozen=True)
class Row:
    """A way to make it: seconds of the clock and of processors, workers killed, and if it is the same."""

    way: str
    seconds: float
    cpu_seconds: float
    killed: int
    same: bool


def write(folder: Path, networks: int) -> Path:
    """The project file, with recordings and keys beside it."""
    for words in (("key", "new", "-o", "owner.pem"), ("key", "public", "owner.pem", "-o", "pub.pem")):
        subprocess.run([*GRAMOPHONE, *words, "--quiet"], cwd=folder, check=True, stderr=subprocess.DEVNULL)
    (folder / "allowed.toml").write_text(ALLOWED)
    lines = ["[keys.owner]", 'signing-key = "owner.pem"', 'public = "pub.pem"']
    for gpu, recording in RECORDINGS.items():
        (folder / recording.name).write_bytes(recording.read_bytes())
        for number in range(networks):
            lines += [f"[networks.n{number}-{gpu}]", f'recording = "{recording.name}"', f'gpus = ["{gpu}"]']
            lines += ['report = { allow = "allowed.toml" }'] if gpu.startswith("mali") else []
    file = folder / "gramophone.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def made(file: Path, options: Sequence[str], mean_s: float = 0.0, kills: int = 0) -> tuple[float, float, int]:
    """Seconds, processor seconds and workers killed, one after `mean_s` on average, up to `kills`."""
    before, began = _cpu(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cache-", dir=file.parent) as cache:
        store = ("--farm-store", (Path(cache) / "store").as_uri()) if "--farm" in options else ()
        command = [*GRAMOPHONE, "make", str(file), "--cache", f"{cache}/made", "--quiet", *options, *store]
        with subprocess.Popen(
            command, env={**os.environ, EPOCH: "1795777200"}, stdout=subprocess.DEVNULL
        ) as process:
            killed = _kill(process, Path(cache) / "store/results", mean_s, kills) if kills else 0
            if process.wait():
                raise SystemExit(f"'gramophone make {' '.join(options)}' ended with status {process.returncode}")
    return time.monotonic() - began, _cpu() - before, killed


def _cpu() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _kill(process: subprocess.Popen[bytes], results: Path, mean_s: float, kills: int) -> int:
    """Kill workers at random times, from the first result on, while the process runs; how many."""
    chance, killed = random.Random(SEED), 0
    while process.poll() is None and killed < kills:
        time.sleep(chance.uniform(0, 2 * mean_s) if any(results.glob("*")) else 0.1)
        try:
            found = [
                child for child in psutil.Process(process.pid).children() if WORKER in " ".join(child.cmdline())
            ]
            if found and any(results.glob("*")):
                chance.choice(found).kill()
                killed += 1
        except psutil.Error:  # it has just ended
            continue
    return killed


def content(file: Path) -> dict[str, bytes]:
    """All results of a project, but the reasons of its next run."""
    out = file.parent / "out"
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("[!.]*") if path.is_file()}


def measure(networks: int, kills: int) -> list[Row]:
    """A row for each way."""
    ways = {
        "one process": ("-j", "1"),
        "one process, 2 at a time": ("-j", "2"),
        "2 workers": ("--farm", "local:2"),
        "4 workers": ("--farm", "local:4"),
    }
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as first:
        made(write(Path(first), 1), ("-j", "1"))  # what is compiled once is there for all
    with tempfile.TemporaryDirectory() as name:
        file = write(Path(name), networks)
        expected: dict[str, bytes] = {}
        for way, options in ways.items():
            row = made(file, options)
            expected = expected or content(file)
            rows.append(_row(file, expected, way, *row))
        found = made(file, ("--farm", "local:4"), rows[-1].seconds / kills, kills)
        rows.append(_row(file, expected, f"4 workers, {found[2]} killed", *found))
    return rows


def _row(file: Path, expected: dict[str, bytes], way: str, seconds: float, cpu: float, killed: int) -> Row:
    return Row(way, seconds, cpu, killed, content(file) == expected)


def main() -> int:
    """Print the table, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.farm", description=__doc__)
    parser.add_argument("--networks", type=int, default=20, metavar="N")
    parser.add_argument("--kills", type=int, default=50, metavar="N")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    rows = measure(options.networks, options.kills)
    if options.json:
        print(json.dumps({"networks": options.networks, "ways": [asdict(row) for row in rows]}))
    else:
        print(f"{options.networks} networks on {len(RECORDINGS)} GPUs, {options.networks * TASKS} tasks")
        for row in rows:
            same = "same bytes" if row.same else "OTHER BYTES"
            print(f"{row.way:26} {row.seconds:7.1f} s, processors {row.cpu_seconds:7.1f} s, {same}")
    return 0 if all(row.same for row in rows) and rows[-1].killed >= options.kills else 1


if __name__ == "__main__":
    sys.exit(main())
