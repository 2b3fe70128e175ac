# SPDX-License-Identifier: BSD-2-Clause
"""Benchmark: `gramophone fleet` for a million log entries of a thousand devices, beside `verify log` of one log.

`python -m tests.bench.fleet [ENTRIES DEVICES]`. Each is a process of its own. A quarter of the entries is
measured, too, since memory must not grow with them. CPU time is compared, and it includes starting Python. The
object store is a server of the tests on this computer, whose own time is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from host_tools.support import programs
from tests.bench import usage
from tests.support.buckets import buckets
from tests.support.fleet_samples import fleet_in, write_long
from tests.support.places import CHECKOUT
from trace_format.errors import GramophoneError

ENTRIES, DEVICES = 1_000_000, 1000
ALONE = 100_000  # entries of the one log that verify-log reads: it has them all in memory


@dataclass(frozen=True)
class Cost:
    """What a command took: its subject, entries, CPU seconds and resident memory at its largest."""

    name: str
    entries: int
    cpu_s: float
    peak_bytes: int

    @property
    def entries_per_s(self) -> float:
        """Entries a CPU second."""
        return self.entries / self.cpu_s


def measure(entries: int, devices: int) -> list[Cost]:
    """The rows of the table; GramophoneError: a command failed."""
    found = []
    for count in (entries // 4, entries):
        with tempfile.TemporaryDirectory() as place:
            fleet = fleet_in(Path(place))
            write_long(fleet, devices, count // devices)
            words = ["fleet", str(fleet.logs), "--devices", str(fleet.enrolled)]
            found.append(_cost(f"fleet, {devices} devices", count, words))
            with buckets() as store:
                for path in fleet.logs.iterdir():
                    store.put(f"bucket/{path.name}", path.read_bytes())
                found.append(
                    _cost("the same, from S3", count, [words[0], "s3://bucket", *words[2:]], store.settings())
                )
    with tempfile.TemporaryDirectory() as place:
        fleet = fleet_in(Path(place))
        write_long(fleet, 1, ALONE)
        words = ["verify", "log", f"{fleet.logs}/device-0.log", "--log-key", f"{fleet.enrolled}/device-0/log.key"]
        found.append(_cost("verify log", ALONE, words))
        found.append(_cost("fleet, 1 device", ALONE, ["fleet", str(fleet.logs), "--devices", str(fleet.enrolled)]))
    return found


def _cost(name: str, entries: int, words: list[str], environment: Mapping[str, str] = {}) -> Cost:
    command = [sys.executable, "-m", "host_tools.cli", *words, "--quiet"]
    done = programs.run(
        [sys.executable, usage.__file__, *command], cwd=CHECKOUT, env={**os.environ, **environment}
    )
    if done.returncode:
        raise GramophoneError(f"gramophone {words[0]}: {done.stderr}")
    said = json.loads(done.stderr.splitlines()[-1])
    return Cost(name, entries, said["cpu_s"], said["peak_bytes"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet", description=__doc__)
    parser.add_argument("entries", nargs="?", type=int, default=ENTRIES)
    parser.add_argument("devices", nargs="?", type=int, default=DEVICES)
    options = parser.parse_args(arguments)
    rows = measure(options.entries, options.devices)
    plain = next(row for row in rows if row.name == "verify log")
    print(f"{'':22}{'entries':>11}{'CPU s':>8}{'entries/s':>11}{'of verify-log':>15}{'peak MiB':>10}")
    for row in rows:
        ratio = f"{row.entries_per_s / plain.entries_per_s:.1f}"
        figures = f"{row.entries:11,}{row.cpu_s:8.1f}{row.entries_per_s:11,.0f}{ratio:>15}"
        print(f"{row.name:22}{figures}{row.peak_bytes / (1 << 20):10.0f}")


if __name__ == "__main__":
    main()
