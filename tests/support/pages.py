# SPDX-License-Identifier: BSD-2-Clause
"""The fenced blocks of the documents: which are run, and why others are not.

A block ```console is a session: commands after "$ ", and what they print. `tests/qemu/test_tutorial.py` runs it,
or the line above it is a comment, <!-- not run: WHY -->. Blocks ```sh are commands alone and not run; above the
first one of a page, or above each, stands <!-- sh, not run: WHY -->. That there are such commands and options is
checked of all, by `tests/unit/docs/test_docs_index.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tests.support.places import CHECKOUT

RUN = (
    "README.md",
    "docs/TUTORIAL.md",
    "docs/AUDITING.md",
    "docs/AUDIT-FIRMWARE.md",
    "docs/LOG.md",
    "docs/KEYS.md",
    "docs/PROVENANCE.md",
)
# Decisions and the changelog are history; tee_replayer's are copied into what is generated.
PAGES = sorted(
    str(path.relative_to(CHECKOUT))
    for pattern in ("*.md", "docs/*.md", "docs/your-board/*.md", "host_tools/**/*.md")
    for path in CHECKOUT.glob(pattern)
    if path.name != "CHANGELOG.md"
)
MARK = re.compile(r"<!-- (not run|sh, not run): (\S.*) -->")


@dataclass
class Block:
    """A fenced block.

    Attributes:
        kind: what stands after its fence: console, sh, text, ... or nothing.
        line: number of its fence's line.
        rows: its lines, with their numbers.
        marks: what the comment above it says: "not run" or "sh, not run", and why.
    """

    kind: str
    line: int
    rows: list[tuple[int, str]] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)


def blocks(document: str) -> list[Block]:
    """All blocks of a document, in order."""
    found: list[Block] = []
    inside, above = False, ""
    for number, line in enumerate(document.splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
            if inside:
                mark = MARK.fullmatch(above)
                found.append(Block(line[3:], number, marks={mark[1]: mark[2]} if mark else {}))
        elif inside:
            found[-1].rows.append((number, line))
        if line.strip():
            above = line
    return found


def unexplained(document: str, is_run: bool) -> list[str]:
    """What is neither run nor marked as not, of a document whose sessions are run or not."""
    wrong: list[str] = []
    sh_is_explained = False
    for block in blocks(document):
        sh_is_explained |= "sh, not run" in block.marks
        session = block.kind == "console" and not is_run and "not run" not in block.marks
        if session or (block.kind == "sh" and not sh_is_explained):
            wrong.append(f"line {block.line}: ```{block.kind} is not run, and no comment above it says why")
        if block.kind not in ("console", "sh", "python", "toml", "yaml", "text", "c", ""):
            wrong.append(f"line {block.line}: ```{block.kind} is no kind of block")
        if block.kind != "console" and any(text.startswith("$ ") for _, text in block.rows):
            wrong.append(f"line {block.line}: a session that is not called console")
    return wrong
