# SPDX-License-Identifier: BSD-2-Clause
"""`python -m tests.bench.products`: how many multiply-additions an instruction of the operators does, on AArch64.

Firmware in QEMU counts them: a replay with the operator less one without it, with layers of MobileNet v1. The
bound beside it is counted by hand: the inner loop of a good product of matrices, which keeps 8 by 12 sums in
registers, as ncnn's for AArch64 does: 96 multiply-additions in 5 loads, 24 fmla by lane, and the loop's end each
four rounds; without packing, and what is around it. `--ncnn` has ncnn compute the same layers on the CPU, in the
recording guest (ncnn_products.py).
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from host_tools import runners
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.bench import ncnn_products
from tests.support.operator_samples import slots_of, trace_of
from tests.support.replayer_samples import ES256
from trace_format.actions import Op
from trace_format.operators import Operator
from trace_format.schema import SlotKind
from trace_format.trace import Trace

# Output channels, input channels, pixels: pointwise layers of MobileNet v1 at 224 by 224, some of them smaller; 49
# and 99 pixels are rows of no multiple of 16 bytes, 48 and 52 the nearest that are.
CONVOLUTIONS = (
    *((64, 32, 3136), (128, 64, 784), (256, 128, 784), (512, 256, 196), (512, 512, 196), (61, 67, 99)),
    *((1024, 512, 48), (1024, 512, 49), (1024, 512, 52), (1024, 1024, 48), (1024, 1024, 49), (1024, 1024, 52)),
)
DENSE = ((1000, 1024), (999, 1021))
BOUND = 96 / (5 + 24 + 0.25)
BOUND_OF_DENSE = 16 / (4 + 1 + 4)  # four rows by four inputs: four loads of weights, one of inputs, four fmla
Array = NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Row:
    """A layer: its sizes, multiply-additions and the operator's instructions."""

    operator: Operator
    sizes: tuple[int, ...]
    products: int
    instructions: int

    @property
    def rate(self) -> float:
        """Multiply-additions an instruction."""
        return self.products / self.instructions

    @property
    def bound(self) -> float:
        """The same of a good kernel's inner loop."""
        return BOUND if self.operator is Operator.CONV1X1 else BOUND_OF_DENSE


def measured(operator: Operator, *sizes: int) -> Row:
    """Count a layer's instructions."""
    rows, inner, *pixels = sizes
    generator = np.random.default_rng(1)
    shapes = ((rows, *pixels), (rows, inner), (inner, *pixels), (rows,))
    arrays = [generator.normal(0, 1, shape).astype(np.float32) for shape in shapes]
    arrays.append(np.array([0, 6], np.float32))
    slots = slots_of(operator, arrays, gap=0)
    trace = trace_of(operator, slots)
    inputs = {s.name: a for s, a in zip(slots, arrays, strict=True) if s.kind is SlotKind.INPUT}
    without = trace.with_(actions=trace.actions[trace.actions["op"] != Op.OPERATE])
    count = _instructions(trace, inputs) - _instructions(without, inputs)
    return Row(operator, sizes, rows * inner * int(np.prod(pixels)), count)


def _instructions(trace: Trace, inputs: dict[str, Array]) -> int:
    delivery = Delivery(sign_trace(trace.build(), ES256))
    result = runners.run("qemu", delivery, ES256.public, inputs, repeat=2)
    if not result.ok or result.instructions is None:
        raise SystemExit(f"no replay: {result.error}")
    return result.instructions.replay


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--ncnn", action="store_true", help="compare with ncnn's kernels; needs the recording guest"
    )
    chosen = parser.parse_args()
    rows = [measured(Operator.CONV1X1, *sizes) for sizes in CONVOLUTIONS]
    rows += [measured(Operator.DENSE, *sizes) for sizes in DENSE]
    theirs = ncnn_products.rates([row.sizes for row in rows]) if chosen.ncnn else []
    titles = ("operator", "sizes", "M products", "products an instruction", "of the bound")
    table = Table(*titles, *(("of ncnn's",) if theirs else ()), box=None)
    for at, row in enumerate(rows):
        sizes = " x ".join(map(str, row.sizes))
        shares = [f"{100 * row.rate / other:.0f} % of {other:.2f}" for other in (row.bound, *theirs[at : at + 1])]
        table.add_row(row.operator.name.lower(), sizes, f"{row.products / 1e6:.2f}", f"{row.rate:.2f}", *shares)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
