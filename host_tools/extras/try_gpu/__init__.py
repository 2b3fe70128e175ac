# SPDX-License-Identifier: BSD-2-Clause
"""A first replay on a Raspberry Pi's GPU, with the system that it has. For owners of a board: `--pack` makes an
archive of sources and networks on any computer, and `try-gpu.sh` in it does the rest on the board.
In `port/` are the C files that take the GPU without a module, an overlay or a reboot, and the script. The networks
are the demo's and those of `record self-test` (`networks/GPU/`). A Raspberry Pi 5 differs in its GPU, in where the
device tree puts registers, and in power and reset (`port/sms.c`).

Not in here: replays by UIO (`tee_replayer/linux`), and cards with firmware (`flash`).

Read first: pack.py
"""

from __future__ import annotations

from host_tools.extras import Extra, LazyCommand

EXTRA = Extra(
    "try_gpu",
    "Replay on a Raspberry Pi without installing anything.",
    {
        "try-gpu": LazyCommand(
            "host_tools.extras.try_gpu.command:try_gpu_command",
            "Pack an archive that replays networks on a Raspberry Pi.",
        ),
    },
    example="gramophone try-gpu --pack pi.tar",
)
