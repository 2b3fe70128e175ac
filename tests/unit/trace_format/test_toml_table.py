# SPDX-License-Identifier: BSD-2-Clause
"""TOML that takes more memory than its size lets one think is refused before it is read; other TOML is not."""

from __future__ import annotations

import time
import tomllib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_format.errors import TraceError
from trace_format.limits import KEY_PARTS, SMALL_BYTES
from trace_format.toml_table import loads

PART = st.sampled_from(["a", "b-1", '"c d"', "'e.f'", '"g.h"'])
DOT = st.sampled_from([".", " . ", "\t."])
SEPARATED = st.lists(st.tuples(PART, DOT), min_size=1, max_size=2 * KEY_PARTS)
PLACES = (
    "{} = 1",
    "[{}]",
    "[[{}]]",
    "x = {{ {} = 1 }}",
    "x = {{ y = 1, {} = 1 }}",
    "  [ {} ]\nx = 1",
    "x = 1\n{} = 2",
)


@given(st.sampled_from(PLACES), SEPARATED)
def test_a_key_of_many_parts_is_refused_wherever_it_stands(place: str, parts: list[tuple[str, str]]) -> None:
    key = "".join(part + dot for part, dot in parts[:-1]) + parts[-1][0]
    text = place.format(key)
    if len(parts) > KEY_PARTS:
        with pytest.raises(TraceError, match=f"a key with dots: expected at most {KEY_PARTS} parts"):
            loads(text.encode(), TraceError)
    else:
        assert loads(text.encode(), TraceError) == tomllib.loads(text)


LONG = "a." * 30_000 + "a"
# What a file of the largest size could be made of.
COSTLY = {
    "a long key": f"{LONG} = 1",
    "a long table": f"[{LONG}]",
    "a long key in braces": f"x = {{ {LONG} = 1 }}",
    "many keys": "".join(f"k{at}.a.a.a.a.a = 1\n" for at in range(60_000))[:SMALL_BYTES],
    "many tables": "".join(f"[k{at}]\n" for at in range(100_000))[:SMALL_BYTES],
    "brackets": "[" * SMALL_BYTES,
    "braces": "x = {" + "{" * SMALL_BYTES,
    "commas": "," * SMALL_BYTES,
    "quotes": '"' * SMALL_BYTES,
    "spaces": " " * SMALL_BYTES,
    "lines": "\n" * SMALL_BYTES,
    "a long word": "a" * SMALL_BYTES,
    "dots": "." * SMALL_BYTES,
}


@pytest.mark.parametrize("what", COSTLY)
def test_nothing_takes_much_time_or_memory(what: str) -> None:
    text = COSTLY[what].encode()
    began = time.process_time()
    if what == "many keys":  # as deep as may be: the most memory for its size
        tracemalloc.start()
    try:
        loads(text, TraceError)
    except TraceError:
        pass
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert time.process_time() - began < 30
    assert most < 256 * SMALL_BYTES


def test_a_text_with_dots_is_a_text() -> None:
    assert loads(b'x = "a.b.c.d.e.f.g.h"\n# a.b.c.d.e.f.g.h\ny = 1.5', TraceError) == {
        "x": "a.b.c.d.e.f.g.h",
        "y": 1.5,
    }
