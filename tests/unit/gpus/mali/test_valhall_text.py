# SPDX-License-Identifier: BSD-2-Clause
"""Valhall's instructions in words: Mesa's own cases of its assembler say the same."""

from __future__ import annotations

import re

import pytest

from host_tools.gpus.mali.valhall import TABLE, instruction
from host_tools.gpus.mali.valhall_text import line
from host_tools.gpus.mali.valhall_values import CONSTANTS, VALUES
from tests.support.mesa_valhall import cases, constants, values
from tests.support.places import CHECKOUT

# Of Mesa's names: what no compute shader has, and images, which are not modelled.
NOT_COMPUTE = re.compile(r"(ATEST|BLEND|BRANCHZI|LD_ATTR|LD_TILE|LD_VAR|LEA_BUF_IMM|LEA_TEX|ST_CVT|TEX_|VAR_TEX)")


def test_mesas_cases_are_said_as_mesa_says_them() -> None:
    said = [(text, line(word)) for word, text in cases()]
    ours = [(theirs, mine) for theirs, mine in said if not NOT_COMPUTE.match(theirs)]
    assert len(said) > 240
    assert len(ours) == len(said) - 24
    assert not [(theirs, mine) for theirs, mine in ours if theirs.strip() != mine.strip()]


def test_what_is_not_executed_is_unknown() -> None:
    others = [line(word) for word, text in cases() if NOT_COMPUTE.match(text)]
    assert {text.split()[0] for text in others} == {"unknown"}


def test_no_two_rows_are_the_same() -> None:
    for row in TABLE:
        assert not row.exact & row.fields, row.name
        assert instruction(row.exact) is row, row.name
    assert len({row.name for row in TABLE}) == len(TABLE)


# Ours -> Mesa's name, and what is not printed there.
ENUMS = {
    "round": ("Round mode", "rte"), "clamp": ("Clamp", "none"), "result": ("Result type", None),
    "condition": ("Condition", None), "flow": ("Flow", "none"), "slot": ("Slot", None),
    "halfwords": ("Swizzles (16-bit)", "h01"), "bytes": ("Swizzles (8-bit)", "b0123"),
    "doubles": ("Swizzles (64-bit)", "none"), "lanes": ("Lanes (8-bit)", None), "combine": ("Combine", "none"),
    "pairs": ("Half-swizzles (8-bit)", None), "inactive": ("Inactive result", "zero"),
    "atomic": ("Atomic operation", None), "lane_op": ("Lane operation", "none"),
    "lane8": ("Load lane (8-bit)", "b0"), "lane16": ("Load lane (16-bit)", "h0"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENUMS)
def test_names_of_values_are_mesas(name: str) -> None:
    theirs, plain = ENUMS[name]
    found = ["" if one == plain else one for one in values(theirs)]
    assert VALUES[name][: len(found)] == found
    assert set(VALUES[name][len(found) :]) <= {"reserved"}


def test_the_constants_are_mesas() -> None:
    assert constants() == list(CONSTANTS)


def test_the_page_lists_what_is_executed() -> None:
    page = (CHECKOUT / "docs/VALHALL.md").read_text(encoding="utf-8")
    listed = re.findall(r"`([A-Z][\w.]*)`", page.partition("## Executed\n")[2].partition("\n## ")[0])
    assert len(listed) == len(set(listed))
    assert set(listed) == {row.name for row in TABLE}
