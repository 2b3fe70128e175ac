# SPDX-License-Identifier: BSD-2-Clause
"""What a family's kernels cost, roughly: by this a search for faster ones orders what it tries
(record/compiled/prediction.py). Estimates of time are families/timing.py's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelCosts:
    """Clocks are of all cores together, and those of one instruction, load or store of all its lanes.

    Attributes:
        lanes: of an instruction.
        registers: values of a thread, beyond which the driver is likely to spill.
        load: instructions that a load takes, with its address.
        apart, both_at_once: instructions that a multiplication and an addition take, and from how many live values
            on they are one.
        issue: clocks of an instruction.
        line, word: clocks of a line of 64 bytes that a load touches, and of each of its words.
        store: clocks of a line that a store touches.
        group: clocks of starting a workgroup.
        units: that each execute a thread of all lanes; work is shared by whole ones.
        rows: of a matrix of packed numbers that a thread multiplies by a vector before the driver spills.
    """

    lanes: int
    registers: int
    load: float
    issue: float
    line: float
    store: float
    word: float = 0.0
    group: float = 0.0
    apart: float = 1.0
    both_at_once: int = 0
    units: int = 1
    rows: int = 4
