# SPDX-License-Identifier: BSD-2-Clause
"""What a test needs of this machine's kernel."""

from __future__ import annotations

import pytest

from host_tools.support.sandbox import missing


def needs(*, files: bool) -> None:
    """Skip a test, and say why, where the kernel or a library for a part of the sandbox is missing."""
    part = "no limit to files" if files else "no limit to network"
    if lacking := [what for what in missing() if what.startswith(part)]:
        pytest.skip(f"{lacking[0]}; Linux 5.13 with landlock among the kernel's lsm=, apt-get install libseccomp2")
