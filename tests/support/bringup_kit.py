# SPDX-License-Identifier: BSD-2-Clause
"""A bring-up kit for a board, made by the command."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from host_tools.cli import main
from host_tools.runners import libraries
from signing import key_files
from tee_replayer.generator.generate import generate
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from tests.support.replayer_samples import ES256, KEY


def bringup_kit(folder: Path, platform: str, network: Path, value: Path, replays: int) -> Path:
    """Make the folder `kit`, and beside it the key and `out`, which it is made of.

    Args:
        folder: to write to.
        platform: the board.
        network: a trace for a V3D 4.2 with an input "data".
        value: that input's.
        replays: of the stage thousand.
    """
    generate(Options("v3d42", platform_of(platform), KEY, libraries.source()), folder / "out")
    (folder / "key.pem").write_bytes(key_files.private_pem(ES256.key))
    words = ("bringup", "make", folder / "out", network, "--input", f"data={value}", "--replays", replays)
    line = [str(word) for word in (*words, "--signing-key", folder / "key.pem", "-o", folder / "kit")]
    done = CliRunner().invoke(main, line, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return folder / "kit"
