# SPDX-License-Identifier: BSD-2-Clause
"""What the operators are made of: C that computes with numbers, beside the core, which does not.

Not in here: the table of what each operator takes (`trace_format/operators.py`). Firmware is compiled without
floating point but for these files, so they are one of their own (`source`).

Read first: numbers.h
"""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from tee_replayer.generator import amalgamate
from trace_format.files import read_file_text
from trace_format.licence import SPDX
from trace_format.operators import OPERATORS, Operator

HERE = Path(__file__).resolve().parent
SOURCE, HEADER = "operators.c", "operands.h"
_OPERATE = "operate.c"  # that copies, of which every replayer with operators has all
_DEFINITION = re.compile(r"^void gr_operator_(\w+)\(struct gr_work \*w\)$", re.MULTILINE)
_INCLUDE = re.compile(r'^#include "(\w+)\.h"$', re.MULTILINE)


@functools.cache
def _defining() -> dict[str, Path]:
    """The file that defines each operator, by its name; TypeError: they are not those of the table."""
    paths = sorted(HERE.glob("*.c"))
    found = [(name, path) for path in paths for name in _DEFINITION.findall(read_file_text(path))]
    names, expected = sorted(name for name, _ in found), sorted(row.name for row in OPERATORS.values())
    if names != expected:
        raise TypeError(f"operators in C: expected {', '.join(expected)}, found {', '.join(names)}")
    return dict(found)


def _needs(path: Path) -> Iterator[Path]:
    """A file of this folder behind what it includes of it; a header comes with the C file of its name, if any."""
    for stem in _INCLUDE.findall(read_file_text(path)):
        header = HERE / f"{stem}.h"
        if header.exists() and stem != path.stem and header.name != HEADER:
            yield from _needs(header)
            if header.with_suffix(".c").exists():
                yield from _needs(header.with_suffix(".c"))
    yield path


def files(operators: Collection[Operator]) -> list[Path]:
    """What operators need, headers among it, in an order in which what is used comes before its users."""
    defining = (_defining()[row.name] for operator, row in OPERATORS.items() if operator in operators)
    return list(dict.fromkeys(path for file in defining if file.name != _OPERATE for path in _needs(file)))


def listed(operators: Collection[Operator]) -> str:
    """What GRAMOPHONE_OPERATORS(X) is for them: `X(COPY, copy) ...`."""
    chosen = (OPERATORS[operator] for operator in OPERATORS if operator in operators)
    return " ".join(f"X({row.operator.name}, {row.name})" for row in chosen)


def words(operators: Collection[Operator]) -> str:
    """Their names, as the notice of a generated file has them."""
    return ", ".join(row.name for operator, row in OPERATORS.items() if operator in operators)


def define(operators: Collection[Operator]) -> str:
    """What all files must see first; nothing where there are none."""
    return f"#define GRAMOPHONE_OPERATORS(X) {listed(operators)}\n" if operators else ""


def source(operators: Collection[Operator]) -> str:
    """Text of SOURCE, which has its numbers in registers of floating point."""
    parts = (amalgamate.part(path) for path in files(operators))
    return "\n".join([f'/* {SPDX} */\n#include "{HEADER}"\n', *parts])


def write(folder: Path, operators: Collection[Operator]) -> None:
    """Write SOURCE and its header to a replayer's folder."""
    shutil.copyfile(HERE / HEADER, folder / HEADER)
    (folder / SOURCE).write_text(source(operators), encoding="utf-8")
