# SPDX-License-Identifier: BSD-2-Clause
"""A board as the options of a replayer have it: its carve-out, its GPU, and what it keeps a log with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tee_replayer.generator import rollback_store
from tee_replayer.generator.board_checks import BoardError
from tee_replayer.generator.boards import Board
from tee_replayer.generator.evidence import HOOK
from tee_replayer.generator.options import GenerateError, Options
from trace_format import limits
from trace_format.files import read_file

CLOCK, CLOCK_HOOK = "rtc", b"gr_port_utc_s("  # range of a board that has nothing but the clock in it


@dataclass(frozen=True)
class OnBoard:
    """What platforms of a board have in common."""

    board: Board

    @property
    def name(self) -> str:
        """As Platform."""
        return self.board.name

    @property
    def notice(self) -> str:
        """As Platform."""
        return self.board.notice


def fitted_board(board: Board, options: Options) -> Board:
    """The board with the carve-out and the MMU that the options ask for.

    Raises:
        GenerateError: it has another GPU, or its port does not provide for a log, a rollback store or a clock.
        BoardError: there is no room for the carve-out, the GPU does not reach it, or there is no MMU.
    """
    profile = options.profile
    if board.gpu and board.gpu.profile != profile.name:
        raise GenerateError(f"the GPU of {board.name} is {board.gpu.profile}, not {profile.name}")
    if options.carveout_bytes is not None:
        board = board.with_carveout(options.carveout_bytes)
    carveout = board.memory["carveout"]
    reach = 1 << int(profile.mmu["pa_bits"])
    if carveout.end > reach:
        raise BoardError(
            f"memory.carveout ({carveout}): {profile.title} reaches only {reach:#x} bytes", file=board.file
        )
    for wanted, hook, why in (
        (options.rollback_store, rollback_store.HOOK, "a rollback store needs flash"),
        (options.clock, CLOCK_HOOK, "a clock that the normal world cannot set"),
    ):
        if wanted and not any(hook in text for text in board.sources.values()):
            missing = hook.decode().rstrip("(")
            raise GenerateError(
                f"{board.file}: {why}: expected {missing} in the board's sources (docs/PORTING.md), found none"
            )
    lines = profile.interrupts
    if board.gpu_lines not in (0, len(lines)):
        raise BoardError(
            f"constants.gpu_spi: expected an interrupt for each line of {profile.title} ({', '.join(lines)}), "
            f"found {board.gpu_lines}",
            file=board.file,
        )
    if options.mmu is not None:
        board = board.with_mmu(options.mmu)
    if options.evidence.log and board.sources and not any(HOOK in text for text in board.sources.values()):
        raise GenerateError(
            f"{board.file}: a replay log needs a place for a secret and for the log's tail: expected "
            "gr_board_secret (docs/LOG.md) in the board's sources, found none"
        )
    return board


def copy_description(board: Board, folder: Path) -> None:
    """Put the description of a board of one's own into the generated folder, for `gramophone flash`."""
    if not board.is_own:
        (folder / f"{board.name}.toml").write_bytes(read_file(board.file, limits.SMALL_BYTES))
