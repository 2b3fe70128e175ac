# SPDX-License-Identifier: BSD-2-Clause
"""Names of Bifrost operations: what docs/BIFROST.md lists as executed and as left out."""

from __future__ import annotations

import re

import pytest

from host_tools.gpus.mali.operations import ADD, FMA, add, fma
from tests.support.places import CHECKOUT

PAGE = (CHECKOUT / "docs/BIFROST.md").read_text(encoding="utf-8")


def names_under(heading: str) -> list[str]:
    """In the table of a section."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|.*\|$", section, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([A-Z][\w.]*)`", row)]


def test_the_page_lists_what_is_executed() -> None:
    listed = names_under("Executed")
    assert len(listed) == len(set(listed))
    assert set(listed) == {operation.name for _, _, operation in (*FMA, *ADD)}


def test_what_is_left_out_has_no_name_here() -> None:
    known = {operation.name for _, _, operation in (*FMA, *ADD)}
    for name in names_under("Left out"):
        assert name not in known
        assert not any(other.startswith(f"{name}.") for other in known), name


@pytest.mark.parametrize(
    ("find", "word", "name"),
    [
        (fma, 0x2E0000, "CSEL.f32"),
        (fma, 0x2E3000, "CSEL.i32"),
        (fma, 0x311800, "LSHIFT_AND.v4i8"),
        (fma, 0x311A00, "LSHIFT_AND.v2i16"),
        (fma, 0x311000, "LSHIFT_AND.i32"),
        (fma, 0x73C6D8, "POPCOUNT.i32"),
        (fma, 0x270000, None),  # FCMP with a truth of an unknown kind
        (add, 0x74A2C, "MUX.v4i8"),
        (add, 0x3D715, "WMASK"),
        (add, 0x613E4, "STORE.i128"),
        (add, 0x6F92F, "BRANCHZ"),
        (add, 0xBC800, "IADD.v2s16"),
        (add, 0xBC980, "IADD.v2u16"),
        (add, 0x3D970, None),  # QUIET.f32
        (add, 0x6F238, None),  # BRANCHC.i32
    ],
)
def test_a_name(find: object, word: int, name: str | None) -> None:
    found = find(word)  # type: ignore[operator]
    assert (found.name if found else None) == name
