# SPDX-License-Identifier: BSD-2-Clause
"""The import rules of `tests/support/floors.py`: the top-level folders, and the floors of `host_tools`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.floors import FLOORS, FOLDERS, PICTURE, WORDS, svg
from tests.support.places import CHECKOUT

GPUS = "host_tools/gpus"
EXTRAS = "host_tools/extras"
IMPORTERS = "host_tools/extras/importers"  # of recordings of one family's drivers
ASKED_NOWHERE = "has_job_manager"  # a question that the interface of families answers (host_tools/families)
SOURCES = {".py", ".c", ".h", ".S", ".toml"}


def imported(source: str) -> set[str]:
    """Modules, or names in them, that a module imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def folders_of(names: set[str]) -> set[str]:
    """Top-level folders of imported names."""
    return {name.split(".")[0] for name in names}


def rooms_of(names: set[str]) -> set[str]:
    """Rooms of host_tools that imported names lie in."""
    return {name.split(".")[1] for name in names if name.startswith("host_tools.")}


def misplaced(files: dict[str, str], floors: Sequence[Sequence[str]]) -> list[str]:
    """Imports of modules (room/file -> source) that do not go down."""
    floor = {room: level for level, rooms in enumerate(floors) for room in rooms}
    return [
        f"{path} imports from {room}"
        for path, source in files.items()
        for room in sorted(rooms_of(imported(source)))
        if room != (own := path.removesuffix(".py").split("/")[0]) and floor[room] <= floor[own]
    ]


def product_files(*suffixes: str) -> dict[str, str]:
    """Texts of the product's files with these suffixes, by their paths."""
    paths = (path for folder in FOLDERS for path in sorted((CHECKOUT / folder).rglob("*")))
    chosen = (path for path in paths if path.suffix in suffixes)
    return {str(path.relative_to(CHECKOUT)): path.read_text(encoding="utf-8") for path in chosen}


def is_inside(file: str, folder: str) -> bool:
    """Whether a file lies in a folder."""
    return Path(file).is_relative_to(folder)


def naming_families(files: dict[str, str]) -> list[str]:
    """Modules (path -> source) outside of the families' folders and the importers that import from a family."""
    return [
        f"{file} imports {name}"
        for file, source in files.items()
        if not is_inside(file, GPUS) and not is_inside(file, IMPORTERS)
        for name in sorted(imported(source))
        if name.startswith("host_tools.gpus.")
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_top_level_folder_uses_only_what_it_may(folder: str) -> None:
    modules = sorted((CHECKOUT / folder).rglob("*.py"))
    assert modules
    forbidden = FOLDERS.keys() - FOLDERS[folder] - {folder}
    wrong = {
        str(path.relative_to(CHECKOUT)): found
        for path in modules
        if (found := folders_of(imported(path.read_text(encoding="utf-8"))) & forbidden)
    }
    assert not wrong


def test_rooms_import_only_from_floors_below() -> None:
    root = CHECKOUT / "host_tools"
    files = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*.py"))
        if path != root / "__init__.py"
    }
    assert {path.removesuffix(".py").split("/")[0] for path in files} == {
        room for rooms in FLOORS for room in rooms
    }
    assert misplaced(files, FLOORS) == []


def test_an_import_that_goes_up_or_sideways_is_found() -> None:
    floors = (("top",), ("left", "right"), ("low",))
    files = {
        "top/a.py": "from host_tools.left import b\nfrom host_tools.low.c import d\n",
        "left/a.py": "from host_tools import low, right\n",
        "low/a.py": "def f():\n    import host_tools.top.a\n",
        "low/b.py": "from host_tools.low import a\n",
    }
    assert misplaced(files, floors) == ["left/a.py imports from right", "low/a.py imports from top"]


def between_extras(files: dict[str, str]) -> list[str]:
    """Modules (path -> source) of an extra that import from another."""
    return [
        f"{file} imports {name}"
        for file, source in files.items()
        for name in sorted(imported(source))
        if is_inside(file, EXTRAS) and name.startswith("host_tools.extras.") and name.count(".") > 2
        if name.split(".")[2] != Path(file).parts[2]
    ]


def test_no_extra_imports_another() -> None:
    assert between_extras(product_files(".py")) == []
    files = {
        "host_tools/extras/a/b.py": "from host_tools.extras import Extra\nfrom host_tools.extras.a.c import d\n",
        "host_tools/extras/a/d.py": "from host_tools.extras.b import c\n",
    }
    assert between_extras(files) == ["host_tools/extras/a/d.py imports host_tools.extras.b.c"]


def test_no_family_is_imported_by_its_name() -> None:
    files = product_files(".py")
    assert any(is_inside(file, IMPORTERS) for file in files)
    assert naming_families(files) == []


def test_an_import_of_a_family_is_found() -> None:
    files = {
        "host_tools/audit/a.py": "from host_tools.gpus import mali\n",
        "host_tools/audit/b.py": "def f():\n    import host_tools.gpus.v3d.lists\n",
        "host_tools/audit/c.py": "from host_tools.families.family import family_of\n",
        "host_tools/gpus_too/d.py": "from host_tools.gpus.v3d import lists\n",
        "host_tools/gpus/mali/e.py": "from host_tools.gpus.mali import passes\n",
        "host_tools/extras/importers/f.py": "from host_tools.gpus.mali import kbase\n",
    }
    assert naming_families(files) == [
        "host_tools/audit/a.py imports host_tools.gpus.mali",
        "host_tools/audit/b.py imports host_tools.gpus.v3d.lists",
        "host_tools/gpus_too/d.py imports host_tools.gpus.v3d.lists",
    ]


def test_nobody_asks_whether_there_is_a_job_manager() -> None:
    outside = {file: text for file, text in product_files(*SOURCES).items() if not is_inside(file, GPUS)}
    assert outside
    assert [file for file, text in outside.items() if ASKED_NOWHERE in text] == []


def test_the_picture_shows_the_list() -> None:
    drawn = PICTURE.read_text(encoding="utf-8")
    assert drawn == svg(), "run: make generated"
    names = {room for rooms in FLOORS for room in rooms} | FOLDERS["host_tools"]
    assert names == WORDS.keys()
    for name in names:
        assert f">{name}</text>" in drawn


def test_imports_are_found() -> None:
    source = "import a.b, c\nfrom d.e import f\ndef g():\n    import h\n"
    assert imported(source) == {"a.b", "c", "d.e.f", "h"}
    assert folders_of(imported(source)) == {"a", "c", "d", "h"}
