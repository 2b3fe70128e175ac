# SPDX-License-Identifier: BSD-2-Clause
"""`make size-diff`: frames as GCC reports them, and two firmwares side by side."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.size_diff import Row, Sizes, frames, rows, source_name, totals

NAMES = st.from_regex(r"\A[a-z_][a-z0-9_]{0,20}\Z")
SIZES = st.dictionaries(NAMES, st.integers(1, 1 << 20), max_size=8)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [("gr_run", "gr_run"), ("gr_slot_bytes.isra.0", "gr_slot_bytes"), ("run.constprop.0.cold", "run")],
)
def test_names_in_the_source(symbol: str, name: str) -> None:
    assert source_name(symbol) == name


def test_frames() -> None:
    text = (
        "replayer.c:1922:28:gr_run\t32\tstatic\n"
        "bearssl/src/inner.h:1350:10:decode.constprop\t16\tstatic\n"
        "bearssl/src/inner.h:1350:10:decode.part.0\t48\tdynamic,bounded\n"
        "port.c:20:10:gr_port_now_us\t0\tstatic\n"
    )
    assert frames(text) == {"gr_run": 32, "decode": 48, "gr_port_now_us": 0}


@given(SIZES)
def test_frames_are_read_back(sizes: dict[str, int]) -> None:
    assert frames("".join(f"a b/c.c:1:2:{name}\t{size}\tstatic\n" for name, size in sizes.items())) == sizes


def test_rows() -> None:
    old = Sizes(Counter(run=100, gone=8), Counter(table=16), Counter(), {"run": 32, "gone": 0}, 124)
    new = Sizes(Counter(run=100, added=50), Counter(table=20), Counter(state=4), {"run": 48, "added": 16}, 170)
    found = rows(old, new)
    assert [row.name for row in found] == ["added", "gone", "state", "table", "run"]
    assert found[0] == Row("added", "code", (None, 50), (None, 16))
    assert found[-1] == Row("run", "code", (100, 100), (32, 48))
    assert all(row.is_changed for row in found)
    assert totals(old, new) == {
        "functions": (108, 150),
        "constants": (16, 20),
        "writable data": (0, 4),
        "flash in all": (124, 170),
        "largest frame": (32, 48),
    }


@given(SIZES, SIZES)
def test_a_firmware_does_not_differ_from_itself(code: dict[str, int], constants: dict[str, int]) -> None:
    sizes = Sizes(Counter(code), Counter(constants), stack=dict.fromkeys(code, 16))
    found = rows(sizes, sizes)
    assert len(found) == len(code) + len(constants)
    assert not any(row.is_changed for row in found)
    assert all(old == new for old, new in totals(sizes, sizes).values())
