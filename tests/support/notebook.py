# SPDX-License-Identifier: BSD-2-Clause
"""Runs a notebook without Jupyter: `python -m tests.support.notebook FILE` writes its cells' outputs into it."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    """A notebook of format 4.5."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    return notebook


def code_cells(notebook: dict[str, Any]) -> list[Cell]:
    """Its cells that are run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def shown(cell: Cell) -> str:
    """What a cell's outputs say: what it printed, and then its value."""
    return "".join("".join(out.get("text") or out["data"]["text/plain"]) for out in cell["outputs"])


def run(sources: list[str], namespace: dict[str, Any]) -> list[tuple[str, str]]:
    """What each source prints, and its last expression's value as text, one after the other as a kernel does."""
    found = []
    for source in sources:
        body = ast.parse(source).body
        last = body[-1] if body and isinstance(body[-1], ast.Expr) else None
        body = body[:-1] if last else body
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(ast.Module(body, []), "cell", "exec"), namespace)
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace) if last else None
        found.append((out.getvalue(), "" if value is None else repr(value)))
    return found


def main(path: Path) -> None:
    """Run a notebook in its folder, and write what its cells give into it."""
    notebook = read(path)
    cells = code_cells(notebook)
    with contextlib.chdir(path.parent):
        answers = run(["".join(cell["source"]) for cell in cells], {})
    for number, (cell, (printed, value)) in enumerate(zip(cells, answers, strict=True), start=1):
        cell["execution_count"], cell["outputs"] = number, []
        if printed:
            lines = printed.splitlines(keepends=True)
            cell["outputs"].append({"name": "stdout", "output_type": "stream", "text": lines})
        if value:
            data = {"text/plain": value.splitlines(keepends=True)}
            cell["outputs"].append(
                {"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"}
            )
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + os.linesep, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
