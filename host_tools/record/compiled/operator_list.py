# SPDX-License-Identifier: BSD-2-Clause
"""Prints the names of ONNX's operators that tinygrad and this project's own have code for, one a line.

Run as a program, like `schedule.py`: `python -m host_tools.record.compiled.operator_list`.
"""

from __future__ import annotations

from host_tools.record.compiled.schedule import operator_names

if __name__ == "__main__":
    print("\n".join(operator_names()))
