# SPDX-License-Identifier: BSD-2-Clause
"""What a decoder takes of the recording machine's memory, by its file's head: before anything is laid out."""

from __future__ import annotations

from host_tools.extras.gguf.blocks import COLUMNS, FORMS, SUPER
from host_tools.extras.gguf.file import Tensor
from host_tools.extras.gguf.model import Model
from host_tools.record.preflight import NetworkError

# The machine has 2 GiB (host_tools/machine/boot.py), and weights are there twice: in the runner's file, and in the
# GPU's memory. The rest is Linux's.
ROOM = 896 << 20


def check_room(model: Model, positions: int) -> None:
    """NetworkError: weights and caches need more than ROOM."""
    needed = sum(map(_laid_out, model.head.tensors.values())) + _state(model, positions)
    if needed > ROOM:
        what = f"the recording machine's memory for weights and {positions} positions"
        raise NetworkError(f"{what}: expected at most {ROOM} bytes, found {needed}")


def _laid_out(tensor: Tensor) -> int:
    """Bytes of a tensor's words (`products.laid_out`): numbers keep their bits; a block has a word of scales."""
    form = FORMS.get(tensor.kind)
    if form is None:
        return tensor.size
    scales = tensor.elements // COLUMNS + (tensor.elements // SUPER if form.is_super else 0)
    return tensor.elements * form.bits // 8 + 4 * scales


def _state(model: Model, positions: int) -> int:
    """Bytes of keys and values, float32."""
    size = model.size
    return 2 * 4 * size.layers * size.groups * size.head * positions
