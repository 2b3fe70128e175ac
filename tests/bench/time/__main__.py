# SPDX-License-Identifier: BSD-2-Clause
"""`python -m tests.bench time`, or `python -m tests.bench.time [g71] [pi4] [pi5] [--json]`: the tables.

g71 takes two minutes and needs GPUReplay's public recordings where the tests look for them; pi5 records the
networks that the cache does not have, some minutes each; `--networks` names those that are to be in its table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from host_tools.model.timing import chips
from tests.bench.time import g71, v3d
from tests.bench.time.fitting import rank, score
from tests.support import recordings

SUBJECTS = ("g71", "pi4", "pi5")


def measure(subjects: Sequence[str], networks: Sequence[str]) -> dict[str, Any]:
    """The figures of these tables, for programs."""
    found: dict[str, Any] = {}
    if "g71" in subjects:
        found["g71"] = _g71()
    if "pi4" in subjects:
        found["pi4"] = [asdict(row) for row in v3d.programs()]
    if "pi5" in subjects:
        found["pi5"] = _pi5(networks)
    return found


def _g71() -> dict[str, Any]:
    folder = recordings.folder(recordings.GPUREPLAY)
    every = [job for name in g71.NETWORKS for job in g71.measured(folder, name)]
    jobs = [job for job in every if not job.prepares]
    predicted = g71.left_out(jobs)
    given = chips()[g71.CHIP]
    return {
        "jobs": len(every),
        "in_replays": len(jobs),
        "left_out": {name: asdict(row) for name, row in g71.scores(jobs, predicted).items()},
        "instructions_alone": {
            name: asdict(row) for name, row in g71.scores(jobs, g71.left_out(jobs, baseline=True)).items()
        },
        "constants": g71.constants(jobs),
        "in_timing_toml": {name: given.constants[name].value for name in g71.FITTED},
        "spread": g71.spread(jobs, predicted),
        "spread_in_timing_toml": (given.low, given.high),
    }


def _pi5(names: Sequence[str]) -> dict[str, Any]:
    rows = [v3d.network(name) for name in names]
    published = np.array([row.published for row in rows])
    estimated = np.array([row.estimated for row in rows])
    found: dict[str, Any] = {"networks": [asdict(row) for row in rows]}
    if len(rows) > 2:  # with less neither ranks nor fits say anything
        found["estimate"] = {"mean": score(estimated, published).mean, "rank": rank(estimated, published)}
        for by in ("model", "accesses", "instructions"):
            predicted = v3d.left_out(rows, by)
            found[by] = {"mean": score(predicted, published).mean, "rank": rank(predicted, published)}
    return found


def show(console: Console, found: Mapping[str, Any]) -> None:
    """Print the tables."""
    if "g71" in found:
        _show_g71(console, found["g71"])
    if "pi4" in found:
        table = Table(
            "Raspberry Pi 4, ms", "published", "issue", "accesses", "estimate", "error", "constant from it"
        )
        for row in found["pi4"]:
            error = 100 * (row["estimated"] / row["published"] - 1)
            cells = [f"{row[key]:.2f}" for key in ("published", "instructions", "accesses", "estimated")]
            table.add_row(row["name"], *cells, f"{error:+.1f} %", row["fixed"] or "none")
        console.print(table)
    if "pi5" in found:
        _show_pi5(console, found["pi5"])


def _show_g71(console: Console, found: Mapping[str, Any]) -> None:
    console.print(f"G71: {found['jobs']} recorded jobs, {found['in_replays']} in replays, a network left out")
    table = Table("jobs", "number", "error", "wake-up aware", "median", "rank", "by instructions alone", "rank ")
    for name, row in found["left_out"].items():
        other = found["instructions_alone"][name]
        cells = (f"{row[key]:.1f} %" for key in ("mean", "aware", "median_aware"))
        alone = f"{other['mean']:.1f} / {other['aware']:.1f} %"
        table.add_row(name, str(row["rows"]), *cells, f"{row['rank']:.3f}", alone, f"{other['rank']:.3f}")
    console.print(table)
    table = Table("constant", "fitted to all", "timing.toml")
    for name, value in found["constants"].items():
        table.add_row(name, f"{value:.3f}", f"{found['in_timing_toml'][name]:.3f}")
    (low, high), (low_given, high_given) = found["spread"], found["spread_in_timing_toml"]
    table.add_row("spread", f"{low:.2f} to {high:.2f}", f"{low_given:.2f} to {high_given:.2f}")
    console.print(table)


def _show_pi5(console: Console, found: Mapping[str, Any]) -> None:
    table = Table(
        "Raspberry Pi 5, ms", "jobs", "M instr.", "published", "issue", "accesses", "estimate", "of published"
    )
    for row in found["networks"]:
        cells = [f"{row[key]:.1f}" for key in ("published", "issue", "accesses", "estimated")]
        share = f"{row['estimated'] / row['published']:.2f}"
        table.add_row(row["name"], str(row["jobs"]), f"{row['instructions'] / 1e6:.1f}", *cells, share)
    console.print(table)
    for name, words in (
        ("estimate", "the estimate as it is"),
        ("model", "estimate and a time a job, fitted to the others"),
        ("accesses", "accesses and a time a job, fitted to the others"),
        ("instructions", "instructions alone, fitted to the others"),
    ):
        if name in found:
            console.print(f"{words}: {found[name]['mean']:.1f} %, rank {found[name]['rank']:.2f}")


def main() -> None:
    """Print tables, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.time", description=__doc__)
    parser.add_argument("subjects", nargs="*", default=SUBJECTS, help=f"of {', '.join(SUBJECTS)}; default: all")
    parser.add_argument("--networks", nargs="+", default=list(v3d.PUBLISHED["network"]), help="rows of pi5")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    if unknown := set(options.subjects) - set(SUBJECTS) | set(options.networks) - v3d.PUBLISHED["network"].keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    found = measure(options.subjects, options.networks)
    if options.json:
        print(json.dumps(found))
    else:
        show(Console(highlight=False), found)


if __name__ == "__main__":
    main()
