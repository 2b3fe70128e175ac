# SPDX-License-Identifier: BSD-2-Clause
"""The platforms by name: the project's boards, bare or with OP-TEE, and a process of Linux."""

from __future__ import annotations

from tee_replayer.generator import boards
from tee_replayer.generator.bare_metal import BareMetal
from tee_replayer.generator.boards import Board
from tee_replayer.generator.linux_folder import PLATFORM, Linux
from tee_replayer.generator.optee_folder import OpTee
from tee_replayer.generator.options import GenerateError, Platform


def names() -> list[str]:
    """Of all platforms, sorted."""
    return sorted([*boards.names(), PLATFORM])


def platform_of(platform: str | Board) -> Platform:
    """The platform of this name, one of `names()`, or of a board of one's own; GenerateError where it is none."""
    if platform == PLATFORM:
        return Linux()
    if isinstance(platform, Board):
        board = platform
    elif platform in boards.names():
        board = boards.load(platform)
    else:
        raise GenerateError(f"no platform {platform!r}; there are: {', '.join(names())}")
    return OpTee(board) if board.runs_optee else BareMetal(board)
