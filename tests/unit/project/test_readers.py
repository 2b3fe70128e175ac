# SPDX-License-Identifier: BSD-2-Clause
"""Shipped code reads files by trace_format/files.py only, which asks first what a file is and how large."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator

import pytest

from tests.support.places import CHECKOUT
from tests.support.readers import Own, opened, sources


def around() -> Iterator[tuple[str, str]]:
    """Calls that open a file elsewhere, but for files of the packages."""
    own = Own()
    for path in sources():
        for call, file in opened(ast.parse((CHECKOUT / path).read_text(encoding="utf-8"))):
            if file is None or not own.has(path, file):
                yield str(path), ast.unparse(call)


def test_no_reader_goes_around_the_one_function() -> None:
    rows = tomllib.loads((CHECKOUT / "tests/readers.toml").read_text(encoding="utf-8"))["row"]
    assert all(row["why"] for row in rows)
    assert sorted(set(around())) == sorted({(row["module"], row["call"]) for row in rows})


@pytest.mark.parametrize(
    "call",
    [
        "path.read_bytes()", "Path(name).read_text()", "open(path)", "io.open(path)", "path.open()",
        "path.open('rb')", "open(path, 'r+b')", "os.open(path, os.O_RDONLY)", "os.open(path, os.O_RDWR)",
        "np.load(path)",
        "np.fromfile(path)", "numpy.memmap(path)", "json.load(file)", "tomllib.load(file)", "onnx.load(path)",
        "zipfile.ZipFile(path)", "tarfile.open(path)", "gzip.open(path)", "shutil.copyfile(path, other)",
        "torch.load(path)", "np.loadtxt(path)", "tarfile.open(fileobj=file)", "os.fdopen(number, 'rb')",
    ],
)  # fmt: skip
def test_what_opens_a_file_is_found(call: str) -> None:
    assert len(list(opened(ast.parse(call)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "path.open('wb')", "open(path, 'a')", "os.open(path, os.O_WRONLY)", "zipfile.ZipFile(path, 'w')",
        "np.load(io.BytesIO(data))", "json.loads(text)", "with open_regular(path) as file: zipfile.ZipFile(file)",
        "read_file(path)", "text.copy()",
    ],
)  # fmt: skip
def test_what_reads_no_file_is_not(text: str) -> None:
    assert not list(opened(ast.parse(text)))
