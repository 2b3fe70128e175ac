# SPDX-License-Identifier: BSD-2-Clause
"""The GPU's nodes in the recording machine's device tree, read back with device-tree-compiler's other programs."""

from pathlib import Path

import pytest

from host_tools.machine.devicetree import Tree, with_gpu
from host_tools.machine.errors import RecordError
from host_tools.machine.placements import PLACEMENTS
from tests.support.device_trees import cells, node, small_tree

BASE = 0x0B00_0000


def test_v3d() -> None:
    assert node(with_gpu(small_tree(), "v3d42"), "/gpu@b000000") == {
        "compatible": b"brcm,2711-v3d\0",
        "reg": cells(0, BASE, 0, 0x4000, 0, BASE + 0x4000, 0, 0x4000, 0, BASE + 0x8000, 0, 0x4000),
        "reg-names": b"hub\0core0\0bridge\0",
        "interrupts": cells(0, 100, 4),
    }


def test_v3d_with_the_power_domains_of_a_pi4() -> None:
    blob = with_gpu(small_tree(), "v3d42-pi4")
    power, gpu = node(blob, "/power@fe100000"), node(blob, "/gpu@fec00000")
    assert power["phandle"] == cells(0x8003)
    assert power["reg"] == cells(0, 0xFE100000, 0, 0x114, 0, 0xFE00A000, 0, 0x24, 0, 0xFEC11000, 0, 0x20)
    assert (power["#power-domain-cells"], power["#reset-cells"]) == (cells(1), cells(1))
    assert gpu["reg"] == cells(0, 0xFEC00000, 0, 0x4000, 0, 0xFEC04000, 0, 0x4000)
    assert (gpu["power-domains"], gpu["resets"]) == (cells(0x8003, 1), cells(0x8003, 0))
    assert gpu["interrupts"] == cells(0, 74, 4)


def test_v3d_at_the_places_of_a_pi5() -> None:
    gpu = node(with_gpu(small_tree(), "v3d71-pi5"), "/gpu@1002000000")
    first = cells(0x10, 0x02000000, 0, 0x4000, 0x10, 0x02008000, 0, 0x4000, 0x10, 0x02030800, 0, 0x700)
    assert gpu["reg"].startswith(first)
    assert gpu["reg-names"].startswith(b"hub\0core0\0sms\0")


def test_mali() -> None:
    blob = with_gpu(small_tree(), "mali_g71")
    gpu, clock = node(blob, "/gpu@b000000"), node(blob, "/gpu-clock")
    assert gpu["compatible"] == b"arm,mali-bifrost\0"
    assert gpu["interrupts"] == cells(0, 100, 4, 0, 101, 4, 0, 102, 4)
    assert gpu["interrupt-names"] == b"job\0mmu\0gpu\0"
    assert gpu["clocks"] == clock["phandle"] == cells(0x8003)


@pytest.mark.parametrize("gpu", PLACEMENTS)
def test_what_was_in_the_tree_stays(gpu: str) -> None:
    before, after = small_tree(), with_gpu(small_tree(), gpu)
    assert node(after, "/") == node(before, "/")
    assert node(after, "/intc") == node(before, "/intc")
    assert len(after) == int.from_bytes(after[4:8], "big")  # the header's totalsize


def test_what_is_no_device_tree() -> None:
    with pytest.raises(RecordError, match=r"fdtput cannot edit the guest's device tree: .*BADMAGIC"):
        Tree(b"no tree").add("gpu", {})


def test_without_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = small_tree()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RecordError, match="is missing: apt-get install device-tree-compiler"):
        with_gpu(blob, "v3d42")
