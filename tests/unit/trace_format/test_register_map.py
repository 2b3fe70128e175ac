# SPDX-License-Identifier: BSD-2-Clause
"""What comes from the GPU profiles: the virtual GPUs' register maps, the page of registers, the allow list."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tee_replayer.generator import target
from trace_format import profile
from trace_format.emit import register_map, register_page
from trace_format.registers import Register


@pytest.mark.parametrize(
    ("name", "c_name"),
    [
        ("core0.INT_STS", "CORE_INT_STS"),
        ("gpu.GPU_ID", "GPU_ID"),
        ("js.STATUS", "JS_STATUS"),
        ("rpivid_asb.V3D_S_CTRL", "RPIVID_ASB_V3D_S_CTRL"),
    ],
)
def test_names_in_c(name: str, c_name: str) -> None:
    assert register_map.c_name(name) == c_name


def is_a_difference(name: str) -> bool:
    return register_map.other_resets(profile.load(name)) is not None


@pytest.mark.parametrize("name", [name for name in register_map.MAPS if is_a_difference(name)])
def test_the_map_of_a_gpu_that_is_like_another_has_what_differs(name: str) -> None:
    gpu = profile.load(name)
    resets = {c: int(value, 16) for c, value in re.findall(r"\{(\w+), (0x[0-9a-f]+)u\}", register_map.emit(name))}
    like, own = ({register_map.c_name(n): r for n, r in described(g).items()} for g in (gpu.like, name))
    assert resets == {c: own[c].reset for c in own if own[c] != like[c]}
    assert {dataclasses.replace(own[c], reset=like[c].reset) for c in own} == set(like.values())


def test_a_gpu_that_differs_in_more_has_a_whole_map() -> None:
    assert [name for name in register_map.MAPS if is_a_difference(name)] == ["mali_g31", "mali_g52r1", "mali_g72"]
    g72 = profile.load("mali_g72")
    offset, register = next(iter(g72.registers.items()))
    repeated, other = next((at, r) for at, r in g72.registers.items() if r.name.startswith("js0."))
    changes: list[dict[str, Any]] = [
        {"registers": {**g72.registers, offset: dataclasses.replace(register, writable=not register.writable)}},
        {"registers": {**g72.registers, repeated: dataclasses.replace(other, reset=other.reset ^ 1)}},
        {"bit_names": {}},
        {"like": ""},
    ]
    for change in changes:
        assert register_map.other_resets(dataclasses.replace(g72, **change)) is None


@pytest.mark.parametrize("name", [name for name in register_map.MAPS if not is_a_difference(name)])
def test_the_map_has_every_register_once(name: str) -> None:
    gpu = profile.load(name)
    text, names = register_map.emit(name), register_map.MAPS[name][2]
    offsets = dict(re.findall(r"^    ([A-Z]\w+) = (0x[0-9a-f]+),$", text, re.M))
    rows = re.findall(r'\{"([\w.]+)", (0x[0-9a-f]+), (0x[0-9a-f]+)u, (0x[0-9a-f]+)u, (\d)\}', text)
    assert len(rows) == len({row[0] for row in rows}) == len(register_map.table(gpu))
    described = {r.offset: r for r in (*gpu.registers.values(), *gpu.others)}
    for row, offset, reset, bits, access in rows:
        register = described[int(offset, 16)]
        block = row.partition(".")[0]
        repeated = gpu.blocks[block].count > 1
        assert register.name == (row.replace(block, f"{block}0", 1) if repeated else row)
        in_c = offsets[names + register_map.c_name(row)]
        assert int(in_c, 16) == int(offset, 16) - repeated * gpu.blocks[block].base
        assert (int(reset, 16), int(bits, 16)) == (register.reset, register.model_bits)
        assert int(access) == (register.readable + 2 * register.writable if register.modelled else 0)
    assert {row[0] for row in rows} >= gpu.bit_names.keys()


def test_a_page_with_every_register() -> None:
    text = register_page.emit()
    for name in profile.names():
        gpu = profile.load(name)
        section = text.partition(f"(`{name}.toml`)")[2].partition("\n## ")[0]
        known = described(gpu.like) if gpu.like else {}
        own = [row for row, _, r in register_map.table(gpu) if known.get(row) != r]
        assert re.findall(r"^\| `([\w.]+)` \| 0x[0-9a-f]+ \| (?:r|w|rw) \|", section, re.M) == own
        for source in gpu.sources.values():
            assert source in section
    tables = [token for token in MarkdownIt().enable("table").parse(text) if token.type == "table_open"]
    assert len(tables) == text.count("\n| --- |")


def described(name: str) -> dict[str, Register]:
    """A GPU's registers by name, those of a repeated block once."""
    return {row: register for row, _, register in register_map.table(profile.load(name))}


@pytest.mark.parametrize("name", profile.names())
def test_no_device_allows_what_no_trace_may_touch(name: str) -> None:
    gpu = profile.load(name)
    allowed = {4 * (first + i) for first, count, *_ in target.rows(gpu) for i in range(count)}
    assert allowed
    assert allowed <= gpu.by_offset.keys()
    assert not allowed & {register.offset for register in gpu.others}
