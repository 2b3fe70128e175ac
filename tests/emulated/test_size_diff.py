# SPDX-License-Identifier: BSD-2-Clause
"""`make size-diff` on the firmware of the checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from host_tools.runners import firmware
from tests.bench import size_diff
from tests.support.places import CHECKOUT
from trace_format.errors import GramophoneError


@pytest.mark.exhaustive  # tests/emulated/test_evidence.py holds the sizes
def test_sizes_of_the_firmware(tmp_path: Path) -> None:
    if shutil.which(f"{firmware.CROSS}gcc") is None:
        pytest.skip(f"{firmware.CROSS}gcc is missing: apt-get install gcc-aarch64-linux-gnu")
    sizes = size_diff.measure(CHECKOUT, "v3d42", "qemu-virt", tmp_path)
    assert sizes.flash == firmware.sizes(tmp_path / "out")["in all, code and constants"]
    assert sizes.code.total() + sizes.constants.total() <= sizes.flash
    in_assembler = {name for name in sizes.code if name.startswith(("bignum_", "sha256_"))}  # of AWS-LC
    assert len(in_assembler) == 9
    assert sizes.stack.keys() == sizes.code.keys() - in_assembler, "every function of C has a frame"
    assert sizes.data == {}, "all state lies on the stack or in the carve-out"


def test_no_such_commit(tmp_path: Path) -> None:
    with pytest.raises(GramophoneError, match="git rev-parse failed"):
        size_diff.files_of("no-such-commit", tmp_path)


def test_no_such_gpu(tmp_path: Path) -> None:
    with pytest.raises(GramophoneError, match="no profile for GPU 'voodoo'"):
        size_diff.measure(CHECKOUT, "voodoo", "qemu-virt", tmp_path)
