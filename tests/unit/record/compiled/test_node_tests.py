# SPDX-License-Identifier: BSD-2-Clause
"""A sample of ONNX's own tests of its operators; `python -m tests.bench.node_tests` runs them all."""

from __future__ import annotations

import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.support import node_cases
from tests.support.node_cases import NodeCase, Prepared, Why
from tests.support.node_kept import Kept
from tests.support.node_page import page
from tests.support.sampling import SomeOf, spread

# Operators that are ours, and what our reader of files or our renderer had wrong before.
SAMPLE = """
    test_attention_3d_gqa_causal test_bitcast_float32_to_int32 test_bitshift_left_uint8
    test_bitshift_right_uint32 test_col2im_pads test_col2im_dilations test_cumprod_1d_exclusive
    test_cumprod_2d_axis_1 test_einsum_batch_matmul test_gru_batchwise test_gru_seq_length
    test_gridsample_reflection_padding test_gridsample_bicubic_align_corners_0_additional_1
    test_gridsample_volumetric_nearest_align_corners_1 test_lstm_batchwise test_lstm_with_peepholes
    test_lppool_2d_default test_lppool_2d_dilations test_simple_rnn_with_initial_bias
    test_simple_rnn_batchwise test_reduce_log_sum_exp_default_axes_keepdims_example_expanded
    test_reversesequence_batch test_reversesequence_time test_max_int16 test_div_uint16 test_swish
    test_mul_int8 test_argmax_keepdims_random test_convtranspose_1d test_sinh_example test_spacetodepth
    test_clip_default_int8_max test_tril test_pow_types_float32_int64
    test_scatternd test_scatternd_multiply test_scatternd_max_with_element_indices test_convinteger_with_padding
    test_scatter_elements_with_duplicate_indices test_scatter_elements_with_negative_indices
    test_size test_spacetodepth_crd_mode_example test_adagrad_multiple test_adam test_nesterov_momentum
    test_dft_irfft test_scan9_scalar test_loop11 test_det_nd test_bitshift_right_int32_shift_ge_width
    test_bitshift_left_int8_negative_shift test_mod_float_edge_cases_fmod_0_float32 test_roialign_mode_max
    test_roialign_aligned_true test_deform_conv_with_mask_bias test_deform_conv_with_multiple_offset_groups
    test_tfidfvectorizer_tf_batch_uniandbigrams_skip5 test_resize_downsample_scales_linear_align_corners
    test_resize_downsample_sizes_cubic_antialias test_resize_tf_crop_and_resize_extrapolation_value
    test_linear_attention_gated_delta test_flexattention_score_mod test_causal_conv_with_state_silu_with_past_state
    test_affine_grid_2d_expanded test_ai_onnx_ml_tree_ensemble_single_tree
    test_ai_onnx_ml_tree_ensemble_set_membership test_quantizelinear_axis test_quantizelinear_blocked_asymmetric
    test_dynamicquantizelinear_min_adjusted test_qlinearconv test_qlinearmatmul_2D_uint8_float32 test_matmulinteger
"""


pytestmark = pytest.mark.usefixtures("without_sandboxes")


@pytest.mark.parametrize("wide", [False, True], ids=["numbers", "vectors"])
def test_a_sample(wide: bool, some_of: SomeOf) -> None:
    found = [case for case in node_cases.collect()[0] if case.name in SAMPLE.split()]
    assert len(found) == len(SAMPLE.split())
    cases = some_of(found, len(found) // 10, lambda all_, most: spread(all_[wide:], most))
    run = partial(node_cases.run, wide=wide)
    run(cases[0])  # the others' processes have what it imports
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda case: node_cases.apart(run, case), cases))
    wrong = {case.name: said for case, said in zip(cases, results, strict=True) if said[0] is not Why.PASSED}
    assert wrong == {}


def negation(wanted: np.ndarray) -> NodeCase:
    given = np.array([1, -2], wanted.dtype)
    kind = helper.np_dtype_to_tensor_dtype(wanted.dtype)
    infos = [helper.make_tensor_value_info(name, kind, [2]) for name in "xy"]
    made = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "n", infos[:1], infos[1:])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return NodeCase("negation", model.SerializeToString(), {"x": given}, {"y": wanted}, 1e-3, 1e-7)


def test_what_is_wrong_is_said() -> None:
    assert node_cases.run(negation(np.array([-1, 2], np.float32))) == (Why.PASSED, "")
    why, said = node_cases.run(negation(np.array([-1, 2.5], np.float32)))
    assert (why, said) == (Why.WRONG, "y: differs by up to 0.5")
    assert node_cases.run(negation(np.array([-1, 2 << 32], np.int64)))[0] == Why.RANGE


def test_a_crash_and_a_hang_are_one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    case = negation(np.array([-1, 2], np.float32))

    def crash(_: NodeCase) -> tuple[Why, str]:
        os._exit(3)

    def hang(_: NodeCase) -> tuple[Why, str]:
        while True:
            pass

    assert node_cases.apart(crash, case) == (Why.TIME, "ended with status 3")
    monkeypatch.setattr(node_cases, "TIME_S", 1)
    assert node_cases.apart(hang, case)[0] == Why.TIME


def test_what_is_kept_is_continued(tmp_path: Path) -> None:
    case, kept = negation(np.array([-1, 2], np.float32)), Kept(tmp_path / "kept")
    assert kept.compiled(case) is None
    ready = node_cases.prepared(case)
    kept.keep(case, ready)
    again = Kept(tmp_path / "kept").compiled(case)
    assert isinstance(again, Prepared)
    assert node_cases.on_lavapipe(again) == (Why.PASSED, "")
    kept.forget(case.name)
    assert kept.compiled(case) is None
    kept.keep(case, (Why.COMPILER, "no"))
    assert kept.compiled(case) == (Why.COMPILER, "no")

    kept.add("lavapipe", "a", (Why.WRONG, "by 1"))
    kept.add("lavapipe", "a", (Why.PASSED, ""))
    with (tmp_path / "kept" / "lavapipe.rows").open("a") as file:
        file.write('["b", "PASS]')
    assert kept.answers("lavapipe") == {"a": (Why.PASSED, "")}
    assert kept.answers("v3d42") == {}


def test_the_page() -> None:
    """Counts are of what was judged; a case that a GPU alone has wrong is told from one that all refuse."""
    names = ["right", "here", "nowhere"]
    cases = [dataclasses.replace(negation(np.array([-1, 2], np.float32)), name=f"test_{name}") for name in names]
    passed, wrong, refused = (Why.PASSED, ""), (Why.WRONG, "y: differs by up to 3"), (Why.COMPILER, "no")
    lavapipe = {"test_right": passed, "test_here": passed, "test_nowhere": refused}
    gpu = {"test_right": passed, "test_here": wrong, "test_nowhere": refused}
    made = page(cases, 2, {"lavapipe": lavapipe, "v3d42": gpu, "v3d71": {"test_nowhere": refused}})
    assert "5 cases, 3 of them of numbers only" in made
    assert "| v3d42 | 3 | 1 | 1 of 2 | 2 |" in made
    assert "| v3d71 | 1 | 0 | 0 of 0 | 1 |" in made
    assert "| Neg | here | v3d42 | wrong result: differs by up to 3 |" in made
    assert "| Neg | nowhere | all | the compiler refuses it: no |" in made
    assert "mali" not in made, "which has judged nothing"
