# SPDX-License-Identifier: BSD-2-Clause
"""The index of decisions (docs/adr/README.md) says of each what the decision itself says: title and status."""

from __future__ import annotations

import re

import pytest

from tests.support.places import CHECKOUT

ADR = CHECKOUT / "docs/adr"
DECISIONS = sorted(path.name for path in ADR.glob("[0-9]*.md"))
ROW = re.compile(r"^\| (?:\[(\d{4})\]\(([^)]+)\)|(\d{4})) \| ([^|]+) \| ([^|]+) \| (\S[^|]*) \|$", re.MULTILINE)
DATE = r"\d{4}-\d{2}-\d{2}"
LINKS = r"\[\d{4}\]\(\d{4}-[^)]+\)(?: and \[\d{4}\]\(\d{4}-[^)]+\))*"
HEAD = re.compile(
    rf"# (\d{{4}}): (.+)\n\nStatus: (?:(accepted), {DATE}\.|(superseded by {LINKS}), {DATE}\. Accepted {DATE}\.)"
)


def head(text: str) -> tuple[str, str, str]:
    """Number, title and status of a decision.

    Raises:
        ValueError: it does not begin with them in the form that the index shows.
    """
    # A paragraph's lines may break anywhere, also between the words of the status.
    start, _, paragraph = text.partition("\n\n")
    found = HEAD.match(start + "\n\n" + paragraph.partition("\n\n")[0].replace("\n", " "))
    if not found:
        raise ValueError(f"expected a number, a title and a status, found {text[:80]!r}")
    return found[1], found[2], found[3] or found[4]


def table(text: str) -> str:
    """The rows of a page's only table: the lines from its first one to the first that is none."""
    _, separator, below = text.partition("\n|---|---|---|---|\n")
    rows = re.match(r"(?:\|.*\n)*", below)
    assert separator, "no table of four columns"
    assert rows
    assert "\n|" not in below[rows.end() - 1 :], "a row is outside the table"
    return rows[0]


def index() -> dict[str, tuple[str, str, str]]:
    """Number -> file (empty: never written), title and status, from the table."""
    text = table((ADR / "README.md").read_text(encoding="utf-8"))
    rows = [(row[0] or row[2], (row[1], row[3], row[4])) for row in ROW.findall(text)]
    assert len(rows) == len(dict(rows)) == text.count("\n"), "a row of the table is not of its form"
    return dict(rows)


def test_a_row_outside_the_table_is_found() -> None:
    head = "| number | title | status | in short |\n|---|---|---|---|\n"
    row = "| [0001](0001-a.md) | A | accepted | a |\n"
    assert table(f"# Decisions\n\n{head}{row}\nText.\n") == row
    with pytest.raises(AssertionError, match="outside the table"):
        table(f"# Decisions\n\n{head}{row}\nText.\n{row}")


@pytest.mark.parametrize("name", DECISIONS)
def test_the_index_says_what_the_decision_says(name: str) -> None:
    number, title, status = head((ADR / name).read_text(encoding="utf-8"))
    assert name.startswith(f"{number}-")
    assert index()[number] == (name, title, status)


def test_each_number_is_explained() -> None:
    numbers = index()
    assert list(numbers) == [f"{number:04d}" for number in range(1, len(numbers) + 1)]
    assert {row[0] for row in numbers.values() if row[0]} == set(DECISIONS)
    missing = [number for number, row in numbers.items() if not row[0]]
    assert missing == ["0020", "0021"]
    assert f"**{missing[0]} and {missing[1]}**" in (ADR / "README.md").read_text(encoding="utf-8")


def test_what_is_superseded_is_named_by_what_supersedes_it() -> None:
    for number, (name, _, status) in index().items():
        for later in re.findall(r"\((\d{4}-[^)]+)\)", status):
            assert f"[{number}]({name})" in (ADR / later).read_text(encoding="utf-8"), f"{later}: {number}"


@pytest.mark.parametrize(
    "text",
    [
        "# 41. Title\n\nStatus: accepted, 2026-11-25.\n",
        "# 0041: Title\n\nNovember 2026.\n",
        "# 0041: Title\n\nStatus: accepted.\n",
        "# 0041: Title\n\nStatus: superseded by 0042, 2026-11-25. Accepted 2026-11-25.\n",
    ],
)
def test_a_head_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a number"):
        head(text)
