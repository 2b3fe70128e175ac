"""The import rules of docs/DESIGN.md: which of the top-level folders may use which."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
HOUSES = {
    "trace_format": set(),
    "signing": {"trace_format"},
    "tee_replayer": {"trace_format", "signing"},
    "baremetal": set(),
    "host_tools": {"trace_format", "signing", "tee_replayer", "baremetal"},
}


def imported(source: str) -> set[str]:
    """Top-level names that a module imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("house", HOUSES)
def test_a_house_uses_only_what_it_may(house: str) -> None:
    modules = sorted((CHECKOUT / house).rglob("*.py"))
    assert modules
    wrong = {
        str(path.relative_to(CHECKOUT)): found
        for path in modules
        if (found := imported(path.read_text(encoding="utf-8")) & HOUSES.keys() - HOUSES[house] - {house})
    }
    assert not wrong


def test_imports_are_found() -> None:
    source = "import a.b, c\nfrom d.e import f\ndef g():\n    import h\n"
    assert imported(source) == {"a", "c", "d", "h"}
