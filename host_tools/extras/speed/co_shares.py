# SPDX-License-Identifier: BSD-2-Clause
"""Which part of a product the GPU keeps and which the CPU gets, by predicted times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from host_tools.accesses.beside_jobs import LINE_BYTES
from host_tools.families.cutting import Prefix
from host_tools.model.products import Product

WORTH = 0.98  # of the GPU's time alone that both together take at most; else the job stays


class LeftError(ValueError):
    """A job stays the GPU's alone; says why."""


@dataclass(frozen=True)
class Share:
    """A division of a job; times are predicted, in microseconds.

    Attributes:
        rows: that the GPU computes, the first ones.
    """

    product: Product
    prefix: Prefix
    rows: int
    gpu_us: float
    cpu_us: float

    @property
    def us(self) -> float:
        """Both at once."""
        return max(self.gpu_us, self.cpu_us)


def cpu_us(product: Product, rows: int, gflops: float) -> float:
    """How long the CPU computes so many rows, at a rate in 10^9 operations a second."""
    return 2e-3 * rows * product.inner * product.columns / gflops


def divisions(
    product: Product, prefixes: Sequence[Prefix], us: float, start_us: float, gflops: float
) -> list[Share]:
    """All divisions in which no line is written by both.

    Args:
        us: the whole job on the GPU; what is above the time to start it is taken to be as its workgroups.
    """
    found = []
    for prefix in prefixes:
        rows = prefix.part * product.rows
        if rows.denominator != 1 or (product.out + 4 * int(rows) * product.columns) % LINE_BYTES:
            continue
        gpu = start_us + (us - start_us) * float(prefix.part)
        cpu = cpu_us(product, product.rows - int(rows), gflops)
        found.append(Share(product, prefix, int(rows), gpu, cpu))
    return found


def chosen(product: Product, prefixes: Sequence[Prefix], us: float, start_us: float, gflops: float) -> Share:
    """The division that is predicted to be over first.

    Raises:
        LeftError: there is none, or none is worth it.
    """
    found = divisions(product, prefixes, us, start_us, gflops)
    if not found:
        raise LeftError("none of its workgroups end where a line of its result does")
    best = min(found, key=lambda share: share.us)
    if best.us > WORTH * us:
        raise LeftError(f"with the CPU it would take {best.us:,.0f} us in place of {us:,.0f}")
    return best
