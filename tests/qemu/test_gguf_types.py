# SPDX-License-Identifier: BSD-2-Clause
"""SmolLM2-135M as its wheel has it, and in other element types: what each token's logits are, on each GPU."""

from __future__ import annotations

import pytest

from host_tools.machine.root import RecordRoot
from tests.bench import gguf_types
from tests.bench.gguf_types import TYPES, measure

GPUS = ("v3d42", "v3d71", "mali_g52r1", "mali_g72")


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("gpu", GPUS)
def test_five_texts(gpu: str, kind: str, root: RecordRoot) -> None:
    """Each of 64 tokens; one text in QEMU's secure world, of as many."""
    for on, texts in (("vgpu", len(gguf_types.PROMPTS)), ("qemu", 1)):
        row = measure(kind, gpu, on, texts)
        assert row.ok, row
