# SPDX-License-Identifier: BSD-2-Clause
"""Types of layers that the installed ncnn has, by its own word."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import ncnn

from trace_format.files import read_file

_WORDS = re.compile(rb"[A-Za-z0-9_]{3,60}(?=\0)")


@functools.cache
def known_layers() -> dict[str, Any]:
    """Type -> a layer of it, or None where ncnn makes none, in order of the alphabet.

    ncnn's Python package does not list its layers, so each word in its file is tried; linkers let a text begin
    inside a longer one.
    """
    words = {word.decode() for word in _WORDS.findall(read_file(Path(ncnn.ncnn.__file__)))}
    ends = {word[at:] for word in words for at in range(len(word) - 2) if word[at].isupper()}
    return {name: ncnn.create_layer(name) for name in sorted(ends) if ncnn.layer_to_index(name) >= 0}
