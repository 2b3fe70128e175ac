# SPDX-License-Identifier: BSD-2-Clause
"""A network as ncnn's `.param`, from its layers."""

from __future__ import annotations

from collections.abc import Iterable

from docs.examples.models import PARAM_MAGIC


def param(layers: Iterable[str]) -> bytes:
    """Lines of layers, after the magic and how many layers and blobs there are."""
    lines = list(layers)
    blobs = sum(int(line.split()[3]) for line in lines)
    return "\n".join([str(PARAM_MAGIC), f"{len(lines)} {blobs}", *lines, ""]).encode()
