# SPDX-License-Identifier: BSD-2-Clause
"""The CPU's shares in a trace: operators beside jobs, their slots, and constants in pages of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.beside_jobs import LINE_BYTES
from host_tools.extras.speed.co_claims import floats
from host_tools.extras.speed.co_shares import Share
from host_tools.families.cutting import Cutting
from host_tools.model.products import ROWS
from host_tools.passes.cut_actions import Found
from host_tools.passes.list_passes import add_memory
from host_tools.passes.memory_passes import fit, moved
from host_tools.passes.program import Program
from trace_format.actions import ALL_BITS, FLAG_BESIDE, Action, Op, action, actions_of, array_of
from trace_format.operators import ROW_ALIGNMENT, Operator
from trace_format.schema import PAGE_BYTES
from trace_format.slots import Slot

Array = NDArray[Any]
GUARD_PAGES = 2  # not mapped, before the pages of constants: hardware fetches ahead
OPERANDS = 5  # slots of an operator


@dataclass
class Room:
    """Constants behind all that is mapped; `start`: their GPU address."""

    start: int
    data: bytearray

    def put(self, name: str, values: Array) -> Slot:
        """A place for values, a row of them at a multiple of what operators need."""
        rows = np.atleast_2d(values).astype("<f4")
        more = -rows.shape[1] % (ROW_ALIGNMENT // 4)
        padded = np.pad(rows, ((0, 0), (0, more)))
        self.data += bytes(-len(self.data) % LINE_BYTES)
        slot = floats(name, self.start + len(self.data), *values.shape)
        if values.ndim > 1:
            slot = replace(slot, strides=(4 * padded.shape[1], 4))
        self.data += padded.tobytes()
        return replace(slot, bound=True)


def slots_of(share: Share, weights: Array, bias: Array | None, room: Room) -> list[Slot]:
    """The operands of the operator that computes the CPU's share.

    Args:
        weights, bias: of the whole product; weights in rows.
    """
    product, first = share.product, share.rows
    rows, inner, columns = product.rows - first, product.inner, product.columns
    name = f"co{product.job}"
    is_dense = product.operator is Operator.DENSE
    out = product.out + 4 * first * columns
    at = product.weights + 4 * first * inner
    if product.layout == ROWS and at % ROW_ALIGNMENT == 0 and 4 * inner % ROW_ALIGNMENT == 0:
        of_weights = floats(f"{name}.weights", at, rows, inner)
    else:
        of_weights = room.put(f"{name}.weights", weights[first:])
    if product.bias is not None and (product.bias + 4 * first) % ROW_ALIGNMENT == 0:
        of_bias = floats(f"{name}.bias", product.bias + 4 * first, rows)
    else:
        of_bias = room.put(f"{name}.bias", np.zeros(rows) if bias is None else bias[first:])
    return [
        floats(f"{name}.to", out, *((rows,) if is_dense else (rows, columns))),
        of_weights,
        floats(f"{name}.from", product.given, *((inner,) if is_dense else (inner, columns))),
        of_bias,
        room.put(f"{name}.clamp", np.array(product.clamp, np.float32)),
    ]


def put_in(
    program: Program,
    cutting: Cutting,
    found: Sequence[Found | str],
    shares: Sequence[Share],
    constants: Mapping[int, tuple[Array, Array | None]],
) -> int:
    """Give the CPU its shares; returns the bytes that constants take.

    Args:
        found: the jobs of the program's actions as they are now.
        constants: job -> weights in rows and bias.
    """
    gpu, slots = program.profile, list(program.slots)
    top = int(program.memory.mappings.pages.max()) + 1 + GUARD_PAGES
    room = Room(top * PAGE_BYTES, bytearray())
    rows = list(actions_of(program.actions))
    instead: dict[int, list[Action]] = {}
    for share in shares:
        job = found[share.product.job]
        assert not isinstance(job, str), "a share is of a job that can be cut"
        operate = action(
            Op.OPERATE,
            flags=FLAG_BESIDE,
            slot=len(slots),
            operator=share.product.operator,
            operands=OPERANDS,
        )
        slots += slots_of(share, *constants[share.product.job], room)
        *describe, start = (
            action(Op.REG_WRITE, register=gpu.register(name).index, value=value, mask=ALL_BITS)
            for name, value in share.prefix.first
        )
        gone = {*job.described, *range(job.marker, job.end)}
        others = [rows[at] for at in range(job.marker + 1, job.start) if at not in job.described]
        made = [*cutting.between(gpu), *describe, rows[job.marker], *others, start, operate]
        made += [*rows[job.start + 1 : job.end], *cutting.between(gpu)]
        instead |= {index: list[Action]() for index in gone} | {job.marker: made}
    program.actions = array_of([new for index, row in enumerate(rows) for new in instead.get(index, [row])])
    program.replace(slots=slots, va_bytes=max(program.trace().va_bytes, room.start + len(room.data) + PAGE_BYTES))
    memory = program.memory
    add_memory(memory, top, bytes(room.data))
    pages = int(memory.mappings.pages.max()) + 1
    granule = int(gpu.mmu["granule_bytes"])
    program.replace(va_bytes=max(program.trace().va_bytes, -(-pages * PAGE_BYTES // granule) * granule))
    program.commit(max(memory.carveout_bytes, (max(memory.frames) + 1) * PAGE_BYTES))
    moved(program.memory)  # constants are used where the image has them
    fit(program)
    return len(room.data)
