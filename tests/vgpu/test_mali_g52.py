# SPDX-License-Identifier: BSD-2-Clause
"""A Mali G52 recording on a virtual Mali G71: import, rules, replay; its page tables as hardware sees them."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.families.page_tables import DivergenceError
from host_tools.gpus.mali.mali_tables import read_tables
from host_tools.gpus.mali.rules import retarget
from host_tools.model.interpreter import Interpreter
from host_tools.passes.listing import PASSES
from host_tools.record.importers.gpureplay_trace import import_gpureplay
from host_tools.vgpu import VirtualGpu
from tests.support import mali_g52_samples as g52
from tests.support import mali_samples as m
from tests.support.mali_samples import CODE, DATA, JOBS, PAGE, SCRATCH
from tests.support.mali_trees import ROOT, Mapped, Tree
from trace_format import profile
from trace_format.actions import MAP_READ, MAP_WRITE
from trace_format.schema import SlotKind
from trace_format.trace import Trace

LATENCY = 6_000


def values(trace: Trace, value: float) -> dict[str, np.ndarray]:
    return {s.name: np.full(s.shape, value, np.float32) for s in trace.slots if s.kind != SlotKind.OUTPUT}


def without_polls(trace: Trace) -> Trace:
    for step in ("volatile", "polls"):
        trace = PASSES[step].apply(trace)
    return trace


def test_it_is_replayed_on_a_g71(tmp_path: Path) -> None:
    raw = import_gpureplay(m.write(tmp_path, g52.recording()), "small", "mali_g52")
    trace = without_polls(Trace.parse(retarget(raw, "mali_g71")[0].build()))
    device = Interpreter(trace, latency_ns=LATENCY, variant="noshaders")
    given = values(trace, 7)
    for run in (1, 2, 3):
        device.run(given | {"input": given["input"] * run})
        counters = device.gpu.counters()
        assert (counters.jobs, counters.faults) == (2 * run, 0)
    at = device.tables.translate(0, JOBS)
    assert device.memory[at : at + PAGE].tobytes() == g52.jobs_page(g71=True)  # status written by the jobs
    at = device.tables.translate(0, CODE)
    assert device.memory[at : at + PAGE].tobytes() == g52.code_page(g71=True)
    at = device.tables.translate(0, SCRATCH)
    assert device.memory[at : at + PAGE].tobytes() == g52.data_page().ljust(PAGE, b"\0")
    mapped = {run.va for run in device.gpu.mappings()}
    assert {CODE, JOBS, DATA} <= mapped  # in the G71's own format
    device.close()


def test_without_rules_it_is_not(tmp_path: Path) -> None:
    """What the rules are for: the identity read of the recording is of another GPU."""
    raw = import_gpureplay(m.write(tmp_path, g52.recording()), "small", "mali_g52")
    device = Interpreter(without_polls(raw.with_(gpu="mali_g71")), latency_ns=LATENCY)
    with pytest.raises(DivergenceError, match=r"gpu\.GPU_ID: expected 0x72120000"):
        device.run(values(raw, 1))
    device.close()


def test_the_commands(tmp_path: Path) -> None:
    """From the files to the replayer in C; the parameter has a value, since passes run the trace."""
    raw, out, value = tmp_path / "raw.gtr", tmp_path / "out.gtr", tmp_path / "param0.npy"
    m.write(tmp_path, g52.recording())
    np.save(value, np.arange(1024, dtype=np.float32))

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(main, [str(a) for a in arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    run("import", "gpureplay", tmp_path, "-o", raw, "--gpu", "mali_g52")
    text = run("build", raw, "-o", out, "--gpu", "mali_g71", "--param", f"param0={value}")
    assert "shader-word                        4" in text
    assert "rule" not in run("build", out, "-o", tmp_path / "again.gtr", "--gpu", "mali_g71")
    trace = Trace.read(out)
    assert (trace.gpu, trace.jobs, trace.raw) == ("mali_g71", 2, False)
    key, public, signed, given = (tmp_path / name for name in ("key.pem", "pub.pem", "out.sgtr", "input.npy"))
    np.save(given, np.ones(16, np.float32))
    run("keygen", "-o", key)
    run("getpub", key, "-o", public)
    run("sign", out, "--signing-key", key, "-o", signed)
    text = run("replay", signed, "--key", public, "--input", f"input={given}", "--on", "vgpu", "--repeat", 2,
               "--gpu", "mali_g71-noshaders")  # fmt: skip
    assert "2 jobs" in text
    assert "0 retries" in text


def test_lpae_tables_as_the_hardware_walks_them() -> None:
    """The importer's reader and the virtual GPU's walk agree on what the older format says."""
    rows = [
        Mapped(0x1000, 3, 0x41000000, MAP_READ | MAP_WRITE),
        Mapped(0x2000, 3, 0x41005000, MAP_READ),
        Mapped(0x200000, 2, 0x42000000, MAP_WRITE),
        Mapped(0x40000000, 1, 0x80000000, MAP_READ | MAP_WRITE),
        Mapped(CODE, 3, 0x41007000, MAP_READ),
    ]
    tree = Tree(lpae=True)
    for row in rows:
        tree.add(row)
    memory = {}
    for address in tree.tables:
        memory[address] = mmap.mmap(-1, PAGE)
        memory[address][:] = tree.page(address)
    with VirtualGpu("mali_g71", memory) as gpu:
        for offset, value in ((0x2400, (ROOT | 7) & 0xFFFFFFFF), (0x2404, ROOT >> 32), (0x2418, 1)):
            gpu.write32(offset, value)
        seen = {run.va: (run.bytes // PAGE, run.flags & 3) for run in gpu.mappings()}
    found = read_tables(tree.text(ROOT | 7, 0), profile.load("mali_g52"))
    assert {run.start: (run.pages, run.flags & 3) for run in found.runs} == seen
    assert len(seen) == len(rows)
