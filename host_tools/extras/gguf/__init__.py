# SPDX-License-Identifier: BSD-2-Clause
"""GGUF files, in which people share language models for llama.cpp. For model owners who have such a file.
`file.py` reads what the file says, in a sandbox; `model.py` finds a decoder in it, `plan.py` makes kernels of it,
`recording.py` records them, and `chat.py` talks to what was recorded.

Not in here: how a plan of kernels is recorded (`record/compiled`), and how state outlasts a replay
(`passes/state.py`).

Read first: plan.py
"""

from __future__ import annotations

from host_tools.extras import Extra, LazyCommand

EXTRA = Extra(
    "gguf",
    "Record language models of GGUF files.",
    {
        "record gguf": LazyCommand(
            "host_tools.extras.gguf.command:record_gguf", "Record one token of a GGUF language model."
        ),
        "chat": LazyCommand(
            "host_tools.extras.gguf.chat_command:chat", "Put questions to a recorded language model."
        ),
    },
    readers=["host_tools.extras.gguf.kinds:identify"],
)
