# SPDX-License-Identifier: BSD-2-Clause
"""Every module's tests are where one looks: in a file of its name, or where tests/tested_by.toml says."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import pytest

from tests.support.places import CHECKOUT

TABLE = CHECKOUT / "tests" / "tested_by.toml"
PRODUCT = ("trace_format", "signing", "tee_replayer", "baremetal", "host_tools")
# Modules that are imported by a name which is put together: whoever reaches the first reaches all in the second.
BY_NAME = {
    "host_tools.cli": "host_tools.commands.",
    "host_tools.support.extra": "host_tools.extras.",
    "host_tools.families.family": "host_tools.gpus.",
    "host_tools.runners": "host_tools.runners.",
}
# Modules that are run or copied, and imported by nobody.
PROGRAMS = {
    "host_tools.extras.speed.kernels.schedule",
    "host_tools.machine.receive_job",
    "host_tools.record.compiled.operator_list",
    "host_tools.record.compiled.schedule",
    "tee_replayer.firmware.size",
}


class Graph:
    """Modules of a checkout, and what they import."""

    def __init__(self, files: Mapping[str, Path], sources: Mapping[str, str]) -> None:
        self.files = files
        self.trees = {name: ast.parse(source) for name, source in sources.items()}

    @classmethod
    def of_the_checkout(cls) -> Graph:
        paths = [path for top in (*PRODUCT, "docs", "tests") for path in sorted((CHECKOUT / top).rglob("*.py"))]
        files = {name_of(path.relative_to(CHECKOUT)): path.relative_to(CHECKOUT) for path in paths}
        return cls(files, {name: (CHECKOUT / path).read_text(encoding="utf-8") for name, path in files.items()})

    @cached_property
    def tests(self) -> list[str]:
        return [name for name, path in self.files.items() if name.startswith("tests.") and "test_" in path.name]

    def imports(self, module: str) -> set[str]:
        """Modules of ours that a module imports, anywhere in it."""
        return self._imports[module]

    @cached_property
    def _imports(self) -> dict[str, set[str]]:
        return {name: set(self._named_in(tree)) for name, tree in self.trees.items()}

    def _named_in(self, tree: ast.AST) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self.files)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    found = inner if inner in self.files else str(node.module)
                    if found in self.files:
                        yield found

    def own_modules(self) -> list[str]:
        """Modules of the product; of packages those that are more than a text and imports."""
        return [
            name
            for name, path in self.files.items()
            if not name.startswith(("docs.", "tests"))
            and not (path.name == "__init__.py" and all(map(says_nothing, self.trees[name].body)))
        ]

    def named(self, module: str) -> list[str]:
        """Test files of a module's name: in its room's folder, or such that import it."""
        *folders, name = module.split(".")
        inner = folders[folders[0] in ("host_tools", "tee_replayer") :]
        room = ".".join(["tests", *(["unit"] if inner[:1] != ["extras"] else []), *inner, f"test_{name}"])
        return [
            test
            for test in self.tests
            if test == room or (test.endswith(f".test_{name}") and module in self.imports(test))
        ]

    def reaches(self, test: str, module: str) -> bool:
        """Whether a test has a module imported, by whatever it imports itself."""
        seen: set[str] = set()
        edge = {test}
        while edge:
            seen |= edge
            found = {name for one in edge for name in self.imports(one)}
            for one, prefix in BY_NAME.items():
                if one in edge:
                    found |= {name for name in self.files if name.startswith(prefix)}
            edge = found - seen
        return module in seen


def name_of(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def says_nothing(node: ast.stmt) -> bool:
    """A text, an import, or the table of an extra, which the test of the command's tree reads."""
    is_table = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXTRA"
    return is_table or isinstance(node, (ast.Expr, ast.Import, ast.ImportFrom))


def read_table(text: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Module -> test files, relative to tests/; and modules without a test -> why."""
    folders = tomllib.loads(text)
    without = folders.pop("untested")
    return {f"{folder}.{name}": tests for folder, row in folders.items() for name, tests in row.items()}, without


def untested(graph: Graph, table: Mapping[str, Sequence[str]]) -> list[str]:
    """Modules that have neither a test file of their name nor a row."""
    return [module for module in graph.own_modules() if not graph.named(module) and not table.get(module)]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph.of_the_checkout()


@pytest.fixture(scope="module")
def table() -> dict[str, list[str]]:
    return read_table(TABLE.read_text(encoding="utf-8"))[0]


@pytest.fixture(scope="module")
def without_tests() -> dict[str, str]:
    return read_table(TABLE.read_text(encoding="utf-8"))[1]


def test_every_module_has_tests_where_one_looks(
    graph: Graph, table: dict[str, list[str]], without_tests: dict[str, str]
) -> None:
    for module in set(untested(graph, table)) - set(without_tests):
        using = [str(graph.files[test]) for test in graph.tests if module in graph.imports(test)]
        pytest.fail(
            f"{module}: no test file of its name, and no row in {TABLE.name}; tests that import it: {using}"
        )


def test_modules_without_tests_are_few_and_said_why(graph: Graph, without_tests: dict[str, str]) -> None:
    assert without_tests.keys() <= set(untested(graph, {}))
    assert all(len(why) > 20 for why in without_tests.values())
    assert len(without_tests) <= 2, "write a test instead"


def test_rows_are_needed_and_lead_to_a_test_of_the_module(graph: Graph, table: dict[str, list[str]]) -> None:
    for module, files in table.items():
        assert module in graph.files, f"{module} is not there"
        assert not graph.named(module), f"{module} has a test file of its name: the row can go"
        for file in files:
            test = name_of(Path("tests", file))
            assert test in graph.files, f"{module}: tests/{file} is not there"
            assert module in PROGRAMS or graph.reaches(test, module), f"{module}: tests/{file} does not import it"


def test_a_new_module_is_noticed() -> None:
    sources = {
        "host_tools.room": '"""A room."""\nfrom host_tools.room import one\n',
        "host_tools.room.one": "",
        "host_tools.room.two": "",
        "host_tools.room.three": "",
        "tests.unit.room.test_one": "",
        "tests.vgpu.test_two": "from host_tools.room.two import x\n",
        "tests.vgpu.test_three": "from host_tools.room import one\n",
    }
    files = {name: Path(*name.split(".")).with_suffix(".py") for name in sources}
    files["host_tools.room"] = Path("host_tools/room/__init__.py")
    graph = Graph(files, sources)
    assert untested(graph, {}) == ["host_tools.room.three"]
    assert untested(graph, {"host_tools.room.three": ["vgpu/test_three.py"]}) == []
    assert not graph.reaches("tests.vgpu.test_three", "host_tools.room.three")
