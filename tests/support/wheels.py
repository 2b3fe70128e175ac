# SPDX-License-Identifier: BSD-2-Clause
"""Wheels of PyPI whose programs and libraries tests record, of pinned versions and content."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from host_tools.machine import wheels
from host_tools.machine.errors import RecordError

Pinned = tuple[str, str, str]  # name, version, SHA-256 of the wheel

# For the guest.
WGPU = ("wgpu", "0.32.0", "00454ba1bc794d38c8365f4ad29f381b88ce0a7f115133bfaa6f1dfad7eb2764")
IREE = ("iree_base_runtime", "3.6.0", "5ebad9846ee64b2d1464e96aa262f39e9865cf107e6d4015a3721b3a5f99bcc5")
# For this machine: the compiler itself is no Python, so that one wheel does for all versions of it.
IREE_COMPILER = (
    "iree_base_compiler",
    "3.6.0",
    "3f6d367847f2cef74bd9e88f5b7637ad5b7d873657cccc35e08c3fd1fdb50787",
)
COMPILER_S = "3.11", "manylinux_2_28_x86_64"


def unpacked(pinned: Pinned, folder: Path) -> Path:
    """A wheel's content, from the cache or PyPI; skips where it cannot be fetched, or used."""
    name, version, sha256 = pinned
    is_compiler = pinned == IREE_COMPILER
    if is_compiler and not (sys.platform == "linux" and platform.machine() == "x86_64"):
        pytest.skip("the pinned compiler is for Linux on x86_64")
    try:
        if is_compiler:
            wheel = wheels.wheel_for(name, version, sha256, *COMPILER_S)
        else:
            wheel = wheels.guest_wheel(name, version, sha256)
    except RecordError as error:
        pytest.skip(str(error))
    wheels.extract(wheel, folder)
    return folder


def runnable(program: Path, *others: Path) -> Path:
    """A program of a wheel, and what it calls, which lost their permissions when they were unpacked."""
    for path in (program, *others):
        path.chmod(0o755)
    return program
