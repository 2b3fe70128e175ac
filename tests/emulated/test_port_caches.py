# SPDX-License-Identifier: BSD-2-Clause
"""Caches and order of the ports for Linux, for OP-TEE and of `try-gpu`, and of a bring-up kit, by the checker that
firmware runs under."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from host_tools.demo import RAW
from host_tools.extras.bringup import kit
from host_tools.extras.bringup.console import STAGES, read
from host_tools.passes.pipeline import build
from host_tools.runners import firmware
from host_tools.runners.caches.model import Rule
from tests.emulated.test_caches import RUNS
from tests.support import cache_plants as c
from tests.support import replayer_samples as s
from tests.support.bringup_kit import bringup_kit
from tests.support.cache_ports import PORTS, WithGpuCaches
from trace_format.trace import Trace

pytestmark = pytest.mark.usefixtures("checked_caches")
# A V3D's results are in memory when it has cleaned its caches, which these runs leave out.
UNCLEANED = ("the interrupt alone before the copy", "the register alone before the copy")
RUNS_OF = [
    (port, name) for port, row in PORTS.items() for name in RUNS if not (row.is_cached and name in UNCLEANED)
]


def broken(port: str, name: str, changes: Mapping[str, str]) -> tuple[set[Rule], str]:
    """Rules that a port breaks in a run, and the report's status."""
    change, happens, _ = RUNS[name]
    data = s.signed(change(c.sample("v3d42")))
    findings, report = c.run(PORTS[port].load(changes), "v3d42", data, kind=WithGpuCaches, **happens)  # type: ignore[arg-type]
    return {found.rule for found in findings} - PORTS[port].allowed, report.name if report else ""


@pytest.mark.parametrize(("port", "name"), RUNS_OF)
def test_our_ports_break_no_rule(port: str, name: str) -> None:
    assert broken(port, name, {}) == (set(), RUNS[name][2])


DSB = '    __asm__ volatile("dsb sy" ::: "memory");\n'
AT_THE_JOB = "    if (offset == GR_JOB_START)\n        flush();\n"
AT_THE_CLEANING = "        port.cleans = false;\n        flush();\n"
HAS_COME = "HUB_INT_MSK_STS)))\n            return true;"
# Mistakes in a port: the port, old text -> new text, and a rule that it breaks; None: none, with the reason.
PLANTS: Mapping[str, tuple[str, Mapping[str, str], Rule | None]] = {
    "nothing is flushed before a job": ("try-gpu", {AT_THE_JOB: ""}, Rule.GPU_MEETS_DIRTY),
    "nothing is flushed after the cleaning": (
        "try-gpu",
        {AT_THE_CLEANING: "        port.cleans = false;\n"},
        Rule.CPU_READS_STALE,
    ),
    "memory is flushed at the interrupt instead": (
        "try-gpu",
        {
            AT_THE_CLEANING: "        port.cleans = false;\n",
            HAS_COME: HAS_COME.replace("return true;", "return flush(), true;"),
        },
        Rule.CPU_READS_STALE,
    ),
    "lines are cleaned only": ("try-gpu", {"dc civac": "dc cvac"}, Rule.CPU_READS_STALE),
    "every second line is flushed": ("try-gpu", {"at += LINE": "at += 2 * LINE"}, Rule.GPU_MEETS_DIRTY),
    # a register is written after each flush, with the same barrier before it
    "no barrier ends a flush": ("try-gpu", {f"{DSB}}}": "}"}, None),
    "no barrier before a register is written": (
        "try-gpu",
        {f"{DSB}    *at(offset)": "    *at(offset)"},
        Rule.STORE_AFTER_DOORBELL,
    ),
    # the flush after the cleaning, which comes before each copy, has the same barrier
    "no barrier after a register is read": (
        "try-gpu",
        {f"{DSB}    if (offset == L2TCACTL": "    if (offset == L2TCACTL"},
        None,
    ),
    "linux: no barrier before a register is written": (
        "linux",
        {f"{DSB}    *at(offset)": "    *at(offset)"},
        Rule.STORE_AFTER_DOORBELL,
    ),
    "linux: no barrier after a register is read": (
        "linux",
        {f"{DSB}    return value;": "    return value;"},
        Rule.LOAD_BEFORE_ANSWER,
    ),
    "optee: no barrier before a register is written": (
        "optee",
        {"    dsb();\n    io_write32": "    io_write32"},
        Rule.STORE_AFTER_DOORBELL,
    ),
    "optee: no barrier after a register is read": (
        "optee",
        {"    dsb();\n    return value;": "    return value;"},
        Rule.LOAD_BEFORE_ANSWER,
    ),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", PLANTS)
def test_planted_mistakes_are_found(name: str) -> None:
    """Each barrier and each flush of these ports is one of them."""
    port, changes, rule = PLANTS[name]
    runs = ("replay",) if PORTS[port].is_cached else UNCLEANED
    found = set().union(*(broken(port, run, changes)[0] for run in runs))
    assert (rule in found) if rule else not found, found


@pytest.mark.exhaustive  # all stages under the checker take a minute
@pytest.mark.parametrize("platform", ["qemu-virt", "rpi4"])
def test_a_kit_breaks_no_rule(platform: str, tmp_path: Path) -> None:
    """A finding ends its emulation with an error."""
    (tmp_path / "net.gtr").write_bytes(build(Trace.parse(RAW.read_bytes())).build())
    np.save(tmp_path / "x.npy", np.zeros((1, 28, 28), np.float32))
    folder = bringup_kit(tmp_path, platform, tmp_path / "net.gtr", tmp_path / "x.npy", 2)
    request = (folder / kit.REQUEST).read_bytes()
    said = read(kit.emulate(firmware.load(folder / kit.FIRMWARE), request, "v3d42"))
    assert [name for name, one in said.stages.items() if one.ok] == list(STAGES)
