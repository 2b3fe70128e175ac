# SPDX-License-Identifier: BSD-2-Clause
"""What forward of a TorchScript file takes, and what is said when shapes are missing."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.extras.pytorch import script
from host_tools.extras.pytorch.script import Taken, inputs_of
from tests.support import torchscript

BODY = "    return torch.relu(x)\n"
WEIGHT = np.ones((2, 2), np.float32)


def written(folder: Path, *changes: tuple[str, str, str]) -> Path:
    """A module, with some text of some files of it replaced."""
    path, given = folder / "net.pt", folder / "given.pt"
    torchscript.write(given, BODY, {"weight": WEIGHT})
    with zipfile.ZipFile(given) as archive, zipfile.ZipFile(path, "w") as changed:
        for name in archive.namelist():
            data = archive.read(name)
            for end, old, new in changes:
                if name.endswith(end):
                    assert old.encode() in data
                    data = data.replace(old.encode(), new.encode())
            changed.writestr(name, data)
    return path


def taken(path: Path) -> tuple[Taken, ...] | None:
    with zipfile.ZipFile(path) as archive:
        return inputs_of(archive)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("x: Tensor", (("x", "Tensor"),)),
        ("x: Tensor, mask: Tensor", (("x", "Tensor"), ("mask", "Tensor"))),
        ("x: Tensor, size: Optional[int]=None", (("x", "Tensor"),)),
        ("x, y: List[Tensor]", (("x", "Tensor"), ("y", "List[Tensor]"))),
    ],
)
def test_inputs(given: str, expected: tuple[tuple[str, str], ...], tmp_path: Path) -> None:
    assert taken(written(tmp_path, (".py", "x: Tensor", given))) == tuple(Taken(*row) for row in expected)


@pytest.mark.parametrize(
    "change",
    [
        (".py", "class Net", "class Other"),
        (".py", "def forward", "def backward"),
        (".py", "def forward", "def def"),
        (".py", "return torch.relu(x)", "return " + "(" * 5000),
        ("data.pkl", "__torch__", "__other__"),
        ("data.pkl", "__torch__", "../../etc"),
        ("data.pkl", "__torch__\nNet", "a"),
    ],
)
def test_files_that_do_not_say_it(change: tuple[str, str, str], tmp_path: Path) -> None:
    assert taken(written(tmp_path, change)) is None


def test_large_code_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    assert taken(path)
    monkeypatch.setattr(script, "MOST_BYTES", 10)
    assert taken(path) is None


@pytest.mark.parametrize("words", [[], ["--shape", "in1=1x2"], ["--shape", "in0=1x2", "--shape", "in1=1x2"]])
def test_a_shape_that_is_missing_is_asked_for_by_name(words: list[str], tmp_path: Path) -> None:
    path = written(tmp_path, (".py", "x: Tensor", "x: Tensor, y: Tensor, z: Tensor"))
    done = CliRunner().invoke(main, ["record", "pytorch", str(path), *words, "-o", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert re.fullmatch(
        rf"error: {path}: forward takes \(x: Tensor, y: Tensor, z: Tensor\), whose shapes TorchScript does not "
        r"keep: expected --shape in0=\.\.\. --shape in1=\.\.\. --shape in2=\.\.\., batch and all, in this order; "
        r"found (none|in1|in0, in1)\n",
        done.stderr,
    ), done.stderr
