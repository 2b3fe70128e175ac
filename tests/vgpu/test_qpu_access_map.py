# SPDX-License-Identifier: BSD-2-Clause
"""The access map of dispatches whose later workgroups find their memory in ranges that are known already."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from host_tools.vgpu.binding import ACCESS_COMMAND, ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN
from tests.support.qpu_asm import assemble
from tests.support.qpu_bench import BASE, CODE, DATA, END, LANE_ADDRESS, ONE_SECTION, UNIFORMS, dispatch

CONFIG = {1: 0xFFFFFFFF, 2: 0xFFFFFFFA, 4: 0xFFFFFFFC}  # by components: a regular access, lane by lane
# The words accessed lie around a page's end.
FIRST, BYTES = DATA + 0x1000, 0x2000
OUT, OUT_BYTES = DATA + 0x4000, 0x4000  # of each component

# rf1: an address of each lane, from this workgroup's row of the table at DATA.
ROW_ADDRESSES = LANE_ADDRESS + "shl r1, rf0, 6\nadd rf10, rf10, r1\nnop; mov tmua, rf10\nnop; nop; ldtmu.rf1\n"


def rows(seed: int, components: int) -> npt.NDArray[np.int64]:
    """Offsets from FIRST of each workgroup's lanes: of one kind a row."""
    rng = np.random.default_rng(seed)
    step, lanes = 4 * components, np.arange(16)

    def start() -> int:
        return step * int(rng.integers(0, (BYTES - 64 * components) // step))

    kinds = [
        np.full(16, start()),
        step * rng.integers(0, BYTES // step, 4).repeat(4),
        start() + step * lanes,
        0x1000 - 32 + step * lanes,  # over the page's end
        step * rng.integers(0, BYTES // step, 16),
    ]
    return np.array([np.linspace(0, BYTES - step, 16).astype(int) // step * step] * 2 + kinds)


@pytest.mark.parametrize("size", [16, 12])
@pytest.mark.parametrize("components", [1, 2, 4])
@pytest.mark.parametrize("store", [False, True])
def test_every_byte_is_noted(components: int, size: int, *, store: bool) -> None:
    offsets = rows(components, components)
    code = ROW_ADDRESSES
    if store:
        code += "nop; mov tmud, rf1\n" * components + "nop; mov tmuau, rf1\n"
    else:
        code += "nop; mov tmuau, rf1\nnop; nop; ldunif\n"
        code += "".join(f"nop; nop; ldtmu.rf{20 + c}\n" for c in range(components)) + "nop; mov r1, r5\n"
        for c in range(components):
            code += f"add rf10, rf10, r1\nnop; mov tmud, rf{20 + c}\nnop; mov tmua, rf10\n"
    uniforms = [DATA, CONFIG[components]] + [OUT_BYTES] * (not store)
    table = (FIRST + offsets).astype(np.uint32)
    outcome = dispatch(
        code + END, uniforms, table, groups=(len(offsets), 1, 1), size=size, flags=ONE_SECTION, track=True
    )
    assert (outcome.error, outcome.fault) == ("", None)

    expected = np.zeros_like(outcome.noted)
    read, lane_words = ACCESS_READ | ACCESS_READ_FIRST, np.arange(4 * size)
    decides = read | ACCESS_COMMAND  # code, uniforms, and the table, from which addresses come
    expected[CODE - BASE :][: len(assemble(code + END))] = decides
    expected[UNIFORMS - BASE :][: 4 * len(uniforms)] = decides
    accessed = offsets[:, :size, None] + np.arange(4 * components)
    expected[FIRST - BASE + accessed] = ACCESS_WRITTEN if store else read
    for row in range(len(offsets)):
        expected[DATA - BASE + 64 * row + lane_words] = decides
        for c in range(0 if store else components):
            expected[OUT - BASE + c * OUT_BYTES + 64 * row + lane_words] = ACCESS_WRITTEN
    np.testing.assert_array_equal(outcome.noted, expected)
