# SPDX-License-Identifier: BSD-2-Clause
"""Memory that is allocated for a large file: content is copied once, the file never."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from host_tools.model.frames import Page
from signing.sign import sign_trace
from signing.verify import verify_trace
from tests.support.signing_samples import SIGNERS
from trace_format.actions import ACTION_DTYPE, Op, action
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

IMAGE_BYTES = 8 << 20
CONTENT = Trace(
    "v3d42",
    np.array([action(Op.REPLAY_START)], dtype=ACTION_DTYPE),
    np.random.default_rng(1).bytes(IMAGE_BYTES),
    2 * IMAGE_BYTES,
    PAGE_BYTES,
)
FILE = CONTENT.build()
SIGNER = SIGNERS["es256"]
SIGNED = sign_trace(FILE, SIGNER)


@pytest.mark.parametrize(
    ("work", "copies"),
    [
        (lambda: CONTENT.build(compress=False), 1),
        (CONTENT.build, 1),
        (CONTENT.pieces, 0),
        (lambda: Trace.parse(FILE), 1),
        (lambda: sign_trace(FILE, SIGNER), 1),
        (lambda: verify_trace(SIGNED, [SIGNER.public]), 0),
    ],
    ids=["build stored", "build", "pieces", "parse", "sign", "verify"],
)
def test_copies_of_a_file(work: Callable[[], object], copies: int) -> None:
    tracemalloc.start()
    try:
        assert work()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / IMAGE_BYTES == pytest.approx(copies, abs=0.1)


def test_a_page_shares_what_nobody_changes_and_copies_the_rest() -> None:
    content = np.frombuffer(FILE[:PAGE_BYTES], np.uint8)
    shared, own = Page.blank(0), Page.blank(1)
    shared.put(slice(0, PAGE_BYTES), content)
    assert shared.content is content
    mine = content.copy()
    own.put(slice(0, PAGE_BYTES), mine)
    mine[0] ^= 1
    assert own.content[0] == content[0]
    shared.put(slice(0, 1), 0)
    assert shared.content[0] == 0
    assert content[0] == FILE[0] != 0
    assert np.array_equal(shared.content[1:], content[1:])
    live = shared.live
    shared.drop(np.zeros(PAGE_BYTES, np.bool_))
    assert shared.live is live


def test_a_page_of_which_nothing_is_left_takes_no_memory() -> None:
    blank, page = Page.blank(0), Page.blank(1)
    page.put(slice(0, PAGE_BYTES), np.frombuffer(FILE[:PAGE_BYTES], np.uint8).copy())
    page.drop(np.ones(PAGE_BYTES, np.bool_))
    assert page.is_blank
    assert page.content is blank.content
    assert page.fills() == ([], [])
    zeros = Page.blank(2)
    zeros.put(slice(0, PAGE_BYTES), 0)
    zeros.drop(np.arange(PAGE_BYTES) >= PAGE_BYTES // 2)
    assert zeros.content is blank.content
    assert zeros.fills() == ([], [(0, PAGE_BYTES // 2)])
