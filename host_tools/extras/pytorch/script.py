# SPDX-License-Identifier: BSD-2-Clause
"""What a TorchScript file says of its inputs: how many, their names and types. It never has their shapes.

Nothing of it is run or unpickled: the module's class is the first that its pickle names, and the code of that is
text. The format: PyTorch's torch/csrc/jit/docs/serialization.md.
"""

from __future__ import annotations

import ast
import pickletools
import zipfile
from dataclasses import dataclass

MOST_BYTES = 4 << 20  # of code of one module, and of the pickle


@dataclass(frozen=True)
class Taken:
    """An input of forward.

    Attributes:
        name: forward's.
        type: as the code says it.
    """

    name: str
    type: str


def inputs_of(archive: zipfile.ZipFile) -> tuple[Taken, ...] | None:
    """What forward takes; None: that cannot be told."""
    try:
        pickled = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        root = pickled.removesuffix("data.pkl")
        words = next(
            str(said) for code, said, _ in pickletools.genops(_read(archive, pickled)) if code.name == "GLOBAL"
        )
        module, _, name = words.rpartition(" ")
        tree = ast.parse(_read(archive, f"{root}code/{module.replace('.', '/')}.py"))
        found = next(item for item in tree.body if isinstance(item, ast.ClassDef) and item.name == name)
        forward = next(item for item in found.body if isinstance(item, ast.FunctionDef) and item.name == "forward")
        taken = forward.args.args[1:]
        required = taken[: len(taken) - len(forward.args.defaults)]
        return tuple(Taken(one.arg, _type(one)) for one in required)
    except (StopIteration, KeyError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _type(argument: ast.arg) -> str:
    return ast.unparse(argument.annotation)[:40] if argument.annotation else "Tensor"


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > MOST_BYTES:
        raise ValueError(f"{name} is large")
    return archive.read(name)
