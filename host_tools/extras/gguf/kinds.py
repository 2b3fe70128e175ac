# SPDX-License-Identifier: BSD-2-Clause
"""What a GGUF file is for `inspect`: its network, the types of its tensors."""

from __future__ import annotations

from collections import Counter
from typing import Any

from host_tools.extras.gguf.file import MAGIC, read_head
from host_tools.extras.gguf.types import TYPES
from trace_format.layout import naming


def identify(data: bytes, file: str) -> tuple[str, dict[str, Any]] | None:
    """What the file is in words, and its figures by name; None: it is something else.

    Raises:
        GgufError: it is a damaged GGUF file.
    """
    if not data.startswith(MAGIC):
        return None
    with naming(file):
        head = read_head(data)
    counts, sizes = Counter[str](), Counter[str]()
    for tensor in head.tensors.values():
        counts[tensor.kind] += 1
        sizes[tensor.kind] += tensor.size
    found = {
        name: head.values[key]
        for name in ("block_count", "embedding_length", "feed_forward_length", "context_length")
        if (key := f"{head.architecture}.{name}") in head.values
    }
    tensors = [
        f"{count} {kind}, {sizes[kind]} bytes"
        if kind in TYPES
        else f"{count} {kind}, which 'record gguf' does not take"
        for kind, count in counts.most_common()
    ]
    tokens = head.values.get("tokenizer.ggml.tokens")
    figures: dict[str, Any] = {"name": head.values.get("general.name", ""), "architecture": head.architecture}
    figures |= found | ({"tokens": len(tokens)} if isinstance(tokens, list) else {})
    return "language model (GGUF)", figures | {"tensors": tensors}
