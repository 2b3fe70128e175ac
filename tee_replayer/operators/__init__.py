# SPDX-License-Identifier: BSD-2-Clause
"""What the operators are made of: C that computes with numbers, beside the core, which does not.

Not in here: the table of what each operator takes (`trace_format/operators.py`). Firmware is compiled without
floating point but for these files, so they are one of their own (`source`).

Read first: numbers.h
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from tee_replayer.generator import amalgamate
from tee_replayer.generator.status import CORE
from trace_format.licence import SPDX
from trace_format.operators import OPERATORS
from trace_format.schema import Operator

HERE = Path(__file__).resolve().parent
SOURCE = "operators.c"
_BOXES = ("numbers.h", "numbers.c", "boxes.h", "boxes.c")
_FILES: dict[Operator, tuple[str, ...]] = {
    Operator.COPY: (),  # the core copies
    Operator.DETECTION_OUTPUT: (*_BOXES, "detection_output.c"),
    Operator.YOLO_DETECTION_OUTPUT: (*_BOXES, "yolo.c"),
    Operator.YOLOV3_DETECTION_OUTPUT: (*_BOXES, "yolo.c"),
    Operator.MATMUL: ("numbers.h", "numbers.c", "tables.c"),
    Operator.EMBED: ("numbers.h", "numbers.c", "tables.c"),
    Operator.ARGMAX: ("numbers.h", "numbers.c", "tables.c"),
}
assert set(_FILES) == set(OPERATORS)


def files(operators: Collection[Operator]) -> list[Path]:
    """What operators need, headers among it, in an order in which what is used comes before its users."""
    names = dict.fromkeys(name for operator in OPERATORS if operator in operators for name in _FILES[operator])
    return [HERE / name for name in names]


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
    return "\n".join([f'/* {SPDX} */\n#include "{amalgamate.OPERATORS}"\n', *parts])


def write(folder: Path, operators: Collection[Operator]) -> None:
    """Write SOURCE and its header to a replayer's folder."""
    shutil.copyfile(CORE / amalgamate.OPERATORS, folder / amalgamate.OPERATORS)
    (folder / SOURCE).write_text(source(operators), encoding="utf-8")
