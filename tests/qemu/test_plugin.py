# SPDX-License-Identifier: BSD-2-Clause
"""The virtual GPU as a device in QEMU: access from both worlds, the memory wall, failure, recording, arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from host_tools.vgpu import build, capture
from tests.support import vgpu_model
from tests.support.bare_metal import Run, run_program

Runner = Callable[..., Run]


def test_secure_world_works_and_normal_world_is_refused(run: Runner) -> None:
    result = run()
    assert (result.status, result.errors) == (0, "")
    stats = result.stats
    assert stats is not None
    assert stats["error"] is None
    assert (stats["jobs"], stats["interrupts"], stats["bytes_written"]) == (1, 1, 4)
    assert stats["secure_accesses"] == stats["reads"] + stats["writes"]
    assert (stats["normal_accesses"], stats["refused_accesses"]) == (1, 1)
    assert stats["refused_memory"] == 2


def test_normal_world_device_reaches_guest_ram(run: Runner) -> None:
    result = run("NORMAL_WORLD")
    assert (result.status, result.errors) == (0, "")
    stats = result.stats
    assert stats is not None
    assert (stats["jobs"], stats["secure_accesses"], stats["refused_accesses"]) == (1, 0, 0)


def test_pieces_of_the_window_can_be_elsewhere(run: Runner) -> None:
    """Core 0 where the program looks for it, by map=; the bridge far away; base= places only the hub."""
    result = run(plugin_args={"map": "0x4000:0x4000:0x0b004000+0x8000:0x1000:0x0c000000"})
    assert (result.status, result.errors) == (0, "")


@pytest.mark.parametrize("defines", [[], ["NORMAL_WORLD"]])
def test_latency_is_virtual_time(run: Runner, defines: list[str]) -> None:
    def polls(latency: int) -> tuple[int, int]:
        result = run(*defines, plugin_args={"latency": str(latency)})
        assert result.status == 0
        events = list(capture.read_capture(result.capture))
        start = next(i for i, e in enumerate(events) if isinstance(e, capture.JobEnd))
        done = next(i for i, e in enumerate(events) if isinstance(e, capture.Interrupt))
        return done - start, sum(e.delta_ns for e in events[start + 1 : done + 1])

    (few, short), (many, long) = polls(1000), polls(100_000)
    assert few < many
    assert 1000 <= short < 2000
    assert 100_000 <= long < 101_000


def test_runs_repeat_bit_for_bit(run: Runner) -> None:
    files = [run(plugin_args={"latency": "5000"}).capture.read_bytes() for _ in range(3)]
    assert files[0] == files[1] == files[2]


def test_capture(run: Runner) -> None:
    events = list(capture.read_capture(run().capture))
    kinds = [type(e).__name__ for e in events if not isinstance(e, (capture.Read, capture.Write))]
    assert kinds == ["Map", "NewPage", "JobStart", "JobEnd", "Interrupt", "Interrupt", "End"]
    mapping = next(e for e in events if isinstance(e, capture.Map))
    assert (mapping.page, mapping.pages, mapping.pa, mapping.writable) == (1, 1, 0x60100000, True)


@pytest.mark.parametrize(
    ("define", "message"),
    [
        ("BUS_ERROR", "bus error: read of GPU address 0x00001000 goes to physical 0x40100000"),
        ("UNKNOWN_REGISTER", "write to hub 0x0018: unknown register"),
    ],
)
def test_gpu_failure_ends_qemu(run: Runner, define: str, message: str) -> None:
    result = run(define)
    assert result.status == 3
    assert result.errors.startswith("gramophone: virtual GPU: v3d42: ")
    assert message in result.errors
    assert result.stats is not None
    assert message in result.stats["error"]
    *_, end = capture.read_capture(result.capture)
    assert isinstance(end, capture.End)
    assert end.failed


def test_hang_is_seen_by_the_guest(run: Runner) -> None:
    assert run(plugin_args={"hang": "1"}).status == 3  # of the program: CHECK(3), no completion


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"irq": ""}, "gpu=, base= and irq= are needed"),
        ({"gpu": ""}, "gpu=, base= and irq= are needed"),
        ({"carveout": ""}, "secure=on goes with carveout="),
        ({"carveout": "0x60000001:0x1000"}, 'bad plugin argument "carveout=0x60000001:0x1000"'),
        ({"irq": "256"}, 'bad plugin argument "irq=256"'),
        ({"base": "here"}, 'bad plugin argument "base=here"'),
        ({"latency": "-1"}, 'bad plugin argument "latency=-1"'),
        ({"sekure": "on"}, 'bad plugin argument "sekure=on"'),
        ({"gpu": "g71"}, "gramophone: g71: unknown GPU name"),
        ({"map": "0xc000:0x100:0xfe100000"}, "gramophone: map: not a piece of the register window"),
        ({"map": "0x4000:0x4000"}, 'bad plugin argument "map=0x4000:0x4000"'),
        ({"map": "0x4000:0x4000:0+"}, 'bad plugin argument "map=0x4000:0x4000:0+"'),
        ({"map": "+".join(["0x4000:0x4000:0"] * 8)}, 'bad plugin argument "map='),
        ({"stats": "/nowhere/stats.json"}, "gramophone: /nowhere/stats.json: No such file"),
        ({"capture": "/nowhere/run.cap"}, "gramophone: /nowhere/run.cap: No such file"),
    ],
)
def test_bad_arguments(run: Runner, arguments: dict[str, str], message: str) -> None:
    result = run(plugin_args=arguments)
    assert result.status == 1
    assert message in result.errors


def test_unknown_release(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "QEMU_PLUGIN_VERSIONS", {"1.0": 1})
    with pytest.raises(build.BuildError, match=r"is of series .*; the plugin knows the internals of 1\.0 only"):
        build.qemu_plugin()


@pytest.mark.exhaustive  # it compiles another plugin; what no plugin is for is refused above
def test_plugin_for_another_release(plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even when both declare the same plugin version."""
    series = build.qemu_series()
    other = next(known for known in build.QEMU_PLUGIN_VERSIONS if known != series)
    monkeypatch.setattr(build, "QEMU_PLUGIN_VERSIONS", {other: build.QEMU_PLUGIN_VERSIONS[series]})
    monkeypatch.setattr(build, "qemu_series", lambda qemu: other)
    result = run_program(build.qemu_plugin(double=vgpu_model.ENGINE_DOUBLE), tmp_path)
    assert result.status == 1
    assert f"this plugin was compiled for QEMU {other}, but runs in {series}" in result.errors
