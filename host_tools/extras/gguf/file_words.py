# SPDX-License-Identifier: BSD-2-Clause
"""The words of a GGUF file: its tokenizer, and the form of a conversation in its chat template."""

from __future__ import annotations

import re

from host_tools.extras.gguf.file import Head
from host_tools.extras.gguf.words import BEGIN, END, PATTERNS, Words, are_texts
from host_tools.record.preflight import NetworkError
from trace_format.errors import printable

SPECIAL = (3, 4)  # types of tokens that no merge makes: control, and user-defined


def words_of(head: Head) -> Words:
    """The words of a GGUF file.

    Raises:
        NetworkError: it has none, or a tokenizer or form of conversation that is not supported.
    """
    values = {name.removeprefix("tokenizer."): value for name, value in head.values.items()}
    kind, pattern = values.get("ggml.model"), values.get("ggml.pre", "gpt-2")
    if kind != "gpt2" or pattern not in PATTERNS:
        expected = f"gpt2 with one of {', '.join(PATTERNS)}"
        raise NetworkError(f"tokenizer: expected {expected}, found {printable(f'{kind} with {pattern}')}")
    template = values.get("chat_template")
    tokens, merges, types = (values.get(f"ggml.{name}") for name in ("tokens", "merges", "token_type"))
    if not are_texts(tokens) or not are_texts(merges) or not isinstance(types, list) or len(types) != len(tokens):
        raise NetworkError("tokenizer: tokens, their types or merges are missing")
    if not isinstance(template, str) or BEGIN not in template or BEGIN not in tokens or END not in tokens:
        raise NetworkError(f"tokenizer.chat_template: expected ChatML, with {BEGIN} and {END}")
    said = re.search(rf"{re.escape(BEGIN)}system(?:\n|\\n)([^<{{]*){re.escape(END)}", template)
    ends = set(range(len(tokens))) & {tokens.index(END), values.get("ggml.eos_token_id")}
    special = [number for number, kind in enumerate(types) if kind in SPECIAL]
    return Words(tokens, merges, special, pattern, sorted(ends), said[1] if said else "")
