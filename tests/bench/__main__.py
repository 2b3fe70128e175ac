# SPDX-License-Identifier: BSD-2-Clause
"""`make bench`: measure and print tables. `python -m tests.bench [format] [mali] [bifrost] [lenet] ...`."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench import (
    bifrost,
    encryption,
    fleet,
    history,
    host,
    kernels,
    mali,
    networks,
    optee,
    shaders,
    startup,
    trust,
)
from tests.bench import format as format_bench
from tests.bench.time import __main__ as time_bench
from trace_format.errors import GramophoneError

NETWORKS = ("lenet", *networks.LARGE)
HOST = {f"host-{name}": name for name in (*NETWORKS, *host.BROAD)}
STARTUP = {f"startup-{name}": name for name in ("lenet", "mobilenet")}
SHADERS = {f"shaders-{name}": name for name in NETWORKS}
# Tables of their own, which have no history.
TABLES: dict[str, Callable[[], None]] = {
    "trust": trust.main,
    "encryption": lambda: encryption.main(["lenet", "mobilenet"]),
    "fleet": lambda: fleet.main([]),
    "kernels": lambda: _without_status(kernels.main([])),
}
TIME = {"time": ("g71", "pi4")}  # without boots
SUBJECTS = (
    "format",
    "mali",
    "bifrost",
    "optee",
    *NETWORKS,
    *HOST,
    "host-large",
    *TIME,
    *STARTUP,
    *SHADERS,
    *TABLES,
)


def _without_status(status: int) -> None:
    if status:
        print("an output differs from ONNX Runtime's")


def main() -> None:
    """Print tables, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("subjects", nargs="*", help=f"what to measure; default: {' '.join(SUBJECTS)}")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--history", type=Path, help="append the figures to this file; print what has changed")
    parser.add_argument("--before", metavar="REVISION", help="shaders-*: measure this revision in turn, too")
    options = parser.parse_args()
    subjects = options.subjects or SUBJECTS
    unknown = set(subjects) - set(SUBJECTS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are: {', '.join(SUBJECTS)}")
    try:
        earlier = history.last(options.history) if options.history else None
    except GramophoneError as error:
        parser.error(str(error))
    rows = [networks.measure(name) for name in subjects if name in NETWORKS]
    speeds = [shaders.measure(SHADERS[name], options.before) for name in subjects if name in SHADERS]
    malis = [mali.measure(name) for name in mali.ORIGINAL] if "mali" in subjects else []
    bifrosts = [bifrost.measure(name) for name in bifrost.CONVOLUTIONS] if "bifrost" in subjects else []
    parsing = format_bench.measure() if "format" in subjects else {}
    on_host = [cost for name in subjects if name in HOST for cost in host.measure(HOST[name])]
    on_host += host.measure_large() if "host-large" in subjects else []
    starts = [startup.measure(STARTUP[name]) for name in subjects if name in STARTUP]
    times = time_bench.measure(TIME["time"], ()) if "time" in subjects else {}
    in_optee = optee.measure() if "optee" in subjects else {}
    firmware = networks.firmware_bytes() if rows else {}
    mali_firmware = mali.firmware_bytes() if malis else {}
    found = {
        "networks": [dataclasses.asdict(row) for row in rows],
        "firmware_bytes": firmware,
        "mali": [dataclasses.asdict(row) for row in malis],
        "mali_firmware_bytes": mali_firmware,
        "bifrost": [dataclasses.asdict(row) for row in bifrosts],
        "shaders": [dataclasses.asdict(row) for row in speeds],
        "optee": in_optee,
        "host": [dataclasses.asdict(cost) for cost in on_host],
        "time": times,
        "startup": [dataclasses.asdict(row) for row in starts],
        "format_mb_per_s": parsing,
    }
    if options.history:
        history.add(options.history, history.flat(found))
    if options.json:
        print(json.dumps(found))
        return
    console = Console(highlight=False)
    time_bench.show(console, times)
    if rows:
        console.print(_columns("network", [row.name for row in rows], networks.lines(rows)))
        console.print(_plain("firmware, v3d42 on qemu-virt, ES256 (bytes)", firmware, "{:,}"))
    if malis:
        console.print(_columns("recording", [row.name for row in malis], mali.lines(malis)))
        console.print(_plain("firmware, mali_g71 on qemu-virt, ES256 (bytes)", mali_firmware, "{:,}"))
    if bifrosts:
        console.print(_columns("\nvirtual Mali", [row.name for row in bifrosts], bifrost.lines(bifrosts)))
    if speeds:
        console.print(_columns("\nvirtual V3D", [row.name for row in speeds], shaders.lines(speeds)))
    if in_optee:
        console.print(_plain("OP-TEE", in_optee, "{:,}"))
    if on_host:
        console.print(_host(on_host))
    if starts:
        console.print(
            _columns("\nfrom start to first output", [row.name for row in starts], _startup(starts, rows))
        )
    for name in subjects:
        if name in TABLES:
            console.print(f"\n{name}")
            TABLES[name]()
    if parsing:
        console.print(_plain("parsing actions (MB/s)", parsing, "{:,.1f}"))
    if earlier:
        console.print(_changes(earlier, history.flat(found)))


def _changes(earlier: dict[str, Any], now: dict[str, float]) -> Table:
    """What is not as it was in the last run."""
    title = f"\nchanged since {earlier['commit']} ({earlier['time']})"
    table = Table("figure", "before", "now", title=title, title_justify="left", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, before, after in history.changes(earlier["figures"], now):
        table.add_row(name, f"{before:,}", f"{after:,}")
    return table


def _startup(rows: list[startup.Startup], firmware: list[networks.Row]) -> dict[str, list[str]]:
    """One column a network; what the firmware takes, of networks that the same run has measured on it."""
    device = {row.name: row.first_output for row in firmware}
    lines = {
        "full stack, shader cache cold, CPU instructions": [f"{row.cold:,}" for row in rows],
        "full stack, shader cache warm, CPU instructions": [f"{row.full:,}" for row in rows],
        "  of these, importing ncnn": [f"{row.importing:,}" for row in rows],
        "a program that does nothing": [f"{row.nothing:,}" for row in rows],
        "replayer in Linux, CPU instructions": [f"{row.replay:,}" for row in rows],
        "  full stack to it, cold / warm": ["{:,.0f} / {:,.0f}".format(*row.ratios) for row in rows],
    }
    if any(row.name in device for row in rows):
        cells = [
            (f"{n:,}", f"{row.cold / n:,.0f} / {row.full / n:,.0f}") if n else ("", "")
            for row in rows
            for n in [device.get(row.name)]
        ]
        lines["replayer at EL3, CPU instructions"] = [count for count, _ in cells]
        lines["  full stack to it, cold / warm "] = [ratio for _, ratio in cells]
    return lines


def _host(costs: list[host.Cost]) -> Table:
    """One row a command."""
    titles = ("command", "CPU seconds", "MB/s", "peak memory, bytes", "file, bytes", "peak above keyinfo, files")
    table = Table(*titles, title="\non the host", title_justify="left", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for cost in costs:
        rate = f"{cost.bytes_per_s / 1e6:.0f}" if cost.file_bytes else ""
        files = "" if cost.files is None else f"{cost.files:.1f}"
        table.add_row(cost.name, f"{cost.cpu_s:.2f}", rate, f"{cost.peak_bytes:,}", f"{cost.file_bytes:,}", files)
    return table


def _columns(title: str, names: list[str], lines: dict[str, list[str]]) -> Table:
    table = Table(title, *names, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, cells in lines.items():
        table.add_row(name, *cells)
    return table


def _plain(title: str, values: dict[str, int] | dict[str, float], form: str) -> Table:
    table = Table("figure", "value", title=f"\n{title}", title_justify="left", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for name, value in values.items():
        table.add_row(name, form.format(value))
    return table


if __name__ == "__main__":
    main()
