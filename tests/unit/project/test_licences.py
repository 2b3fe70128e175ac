# SPDX-License-Identifier: BSD-2-Clause
"""Licences: every file has one, every licence its text, and what is generated says under which it is."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tee_replayer.generator.boards import OPTEE
from tee_replayer.generator.generate import generate
from tee_replayer.generator.optee_folder import PARTS
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support import crypto_trees
from tests.support.places import CHECKOUT
from tests.support.signing_samples import ES256
from trace_format.licence import COPYRIGHT, SPDX

PLUGIN = "host_tools/vgpu/qemu/"
TAG = SPDX.partition(":")[0]
SOURCES = {
    ".py",
    ".c",
    ".h",
    ".S",
    ".ld",
    ".mk",
    ".sh",
    ".toml",
    ".js",
    ".comp",
    ".wgsl",
    ".cl",
    ".mlir",
    ".ksy",
}
SOURCE_NAMES = {"Makefile", "init", "run"}
ANNOTATIONS = tomllib.loads((CHECKOUT / "REUSE.toml").read_text(encoding="utf-8"))["annotations"]
PATHS = [
    path
    for table in ANNOTATIONS
    for path in ([table["path"]] if isinstance(table["path"], str) else table["path"])
]


def tracked() -> list[str]:
    """The files of the project, by path in the checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: nothing says which files are the project's")
    return [name for name in listed.stdout.split("\0") if (CHECKOUT / name).is_file()]


def licence_of(name: str) -> str | None:
    """The licence in a file's first lines; None where there is none."""
    with (CHECKOUT / name).open("rb") as file:
        head = b"".join(file.readline() for _ in range(2))
    found = re.search(rf"{TAG}: ([\w.-]+)".encode(), head)
    return found[1].decode() if found else None


def test_every_source_file_names_its_licence() -> None:
    """Or REUSE.toml does, by the file's own path. Empty files have nothing to be licensed."""
    sources = [name for name in tracked() if Path(name).suffix in SOURCES or Path(name).name in SOURCE_NAMES]
    wrong = {}
    for name in sources:
        expected = "GPL-2.0-or-later" if name.startswith(PLUGIN) else "BSD-2-Clause"
        if name not in PATHS and (CHECKOUT / name).stat().st_size and licence_of(name) != expected:
            wrong[name] = licence_of(name)
    assert len(sources) > 100
    assert not wrong


def test_every_licence_has_its_text() -> None:
    named = {part for table in ANNOTATIONS for part in table[TAG].split(" AND ")}
    named |= {licence for name in tracked() if (licence := licence_of(name))}
    assert named == {path.stem for path in (CHECKOUT / "LICENSES").iterdir()}


@pytest.mark.parametrize("path", PATHS)
def test_annotations_are_of_files_that_exist(path: str) -> None:
    assert any(CHECKOUT.glob(path))


def test_who_uses_the_internals_of_qemu_is_under_its_licence() -> None:
    users = {name for name in tracked() if name.endswith(".c") and '"qemu_abi.h"' in text_of(name)}
    assert users
    assert all(name.startswith(PLUGIN) for name in users)
    assert {table[TAG] for table in ANNOTATIONS if table["path"] == f"{PLUGIN}**"} == {"GPL-2.0-or-later"}


def test_nothing_of_ours_includes_the_plugin() -> None:
    """The virtual GPU and the recorder are linked into programs of any licence."""
    headers = {Path(name).name for name in tracked() if name.startswith(PLUGIN) and name.endswith(".h")}
    for name in tracked():
        if name.endswith((".c", ".h")) and name.startswith("host_tools/") and not name.startswith(PLUGIN):
            assert not headers & set(re.findall(r'^#include "([^"]+)"', text_of(name), re.MULTILINE)), name


@pytest.mark.parametrize("gpu", ["v3d42", "mali_g71"])
def test_generated_files_say_it_once(gpu: str, tmp_path: Path) -> None:
    out = generate(Options(gpu, platform_of(OPTEE), ES256.public, crypto_trees.empty(tmp_path)), tmp_path / "out")
    for name in ("replayer.c", "replayer.h"):
        first, second, *_ = (out / name).read_text(encoding="utf-8").splitlines()
        assert first == f"/* {SPDX} */"
        assert COPYRIGHT in second
        assert (out / name).read_text(encoding="utf-8").count(TAG) == 1
    for folder in (out, *(out / part for part in PARTS)):
        assert (folder / "LICENSE").read_bytes() == (CHECKOUT / "LICENSE").read_bytes()


def text_of(name: str) -> str:
    """Text of a file of the checkout."""
    return (CHECKOUT / name).read_text(encoding="utf-8")
