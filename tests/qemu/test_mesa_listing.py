# SPDX-License-Identifier: BSD-2-Clause
"""Our listing of a Mali's shaders says what Mesa's own says, of all that it compiles for networks."""

from __future__ import annotations

from collections import Counter

import pytest

from host_tools.machine.root import RecordRoot
from tests.support import node_cases
from tests.support.mesa_listing import Clause, clauses, listings, mesas, ours, same
from tests.support.node_cases import Prepared

NAMES = {
    *("test_softmax_example", "test_sinh_example", "test_lstm_defaults", "test_maxpool_2d_default", "test_topk"),
    *("test_argmax_no_keepdims_random", "test_resize_upsample_scales_linear", "test_div_uint8", "test_erf"),
    *("test_bitshift_left_uint16", "test_layer_normalization_2d_axis0", "test_mod_int64_fmod", "test_pow"),
    *("test_cumsum_1d", "test_einsum_batch_matmul", "test_sin", "test_gathernd_example_int32", "test_round"),
    *("test_cast_FLOAT_to_FLOAT16", "test_quantizelinear", "test_gelu_default_1"),
}
MANY = 5000  # operations


pytestmark = pytest.mark.usefixtures("without_sandboxes")


@pytest.mark.exhaustive  # half a minute each; a clause that Mesa has listed is compared below
@pytest.mark.parametrize("gpu", ["mali_g71", "mali_g52r1", "mali_g72", "mali_g31"])
def test_operations_registers_and_constants_are_mesas(gpu: str, root: RecordRoot) -> None:
    made = [node_cases.prepared(case) for case in node_cases.collect()[0] if case.name in NAMES]
    text = listings([case for case in made if isinstance(case, Prepared)], gpu)
    operations, wrong = 0, Counter[str]()
    for clause in clauses(text):
        for one, other in zip(ours(clause), mesas(clause), strict=True):
            operations += 1
            if not same(one, other):
                wrong[f"{one} is not {other}"] += 1
    assert operations > MANY
    assert not wrong


WORDS = (0x29400828_C00765B7_80CB1844_00004029, 0x58C16002_0C0718F3_80CB185C_00008025,
         0x0001B2BC_E03718BF_80CB185C_000080AB, 0x00000020_000039E3_80CB1858_10000053)  # fmt: skip
LISTING = """clause_0:
# 29400828 c00765b7 80cb1844 00004029
# 58c16002 0c0718f3 80cb185c 00008025
# 0001b2bc e03718bf 80cb185c 000080ab
# 00000020 000039e3 80cb1858 10000053
{
    *NOP t0
    +MOV.i32 t1, 0x00000020 /* 0.000000 */
    *NOP t0
    +IADD.s32 r1:t1, u0.w0, t1
    *NOP t0
    +ICMP.u32.gt t1, u0.w0, t1
    *NOP t0
    +IADD.s32 t1, t1, u0.w1
    *NOP t0
    +LOAD.i64 t1, r1, t1, @r1
}
"""


@pytest.mark.parametrize(
    ("what", "by"),
    [
        ("", ""),
        ("IADD.s32 r1", "ISUB.s32 r1"),
        ("0x00000020", "0x00000021"),
        ("u0.w1", "u0.w0"),
        ("r1:t1", "r2:t1"),
    ],
)
def test_a_difference_is_noticed(what: str, by: str) -> None:
    (clause,) = clauses(LISTING.replace(what, by) if what else LISTING)
    assert clause == Clause(WORDS, clause.lines)
    assert all(same(*pair) for pair in zip(ours(clause), mesas(clause), strict=True)) == (not what)
