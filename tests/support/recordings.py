# SPDX-License-Identifier: BSD-2-Clause
"""Recordings that other people made: where they are, and what to say when they are not there.

They are not part of the project. GRAMOPHONE_RECORDINGS names their folder; its default is `../shared/recordings`,
next to the checkout. In it are

- `gpureplay/NAME/` (mnist, alexnet, mobilenet): GPUReplay's public recordings, `replayer/recs` of
  https://github.com/bakhi/GPUReplay;
- `gpureplay/weights/mnist.npz`: a network that was trained for the recording mnist; not public;
- `full_system/*.log`: register accesses of unmodified drivers on another model of the GPUs; not public.
"""

from __future__ import annotations

import os
from pathlib import Path

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "recordings"
GPUREPLAY = "gpureplay"
REGISTER_LOGS = "full_system"


def folder(kind: str) -> Path:
    """The folder of one kind of recordings.

    Raises:
        FileNotFoundError: it is not there; the message says how to get it.
    """
    found = Path(os.environ.get("GRAMOPHONE_RECORDINGS") or BESIDE).resolve() / kind
    if not found.is_dir():
        how = "docs/INSTALL.md says where they are public" if kind == GPUREPLAY else "they are not public"
        raise FileNotFoundError(f"no recordings at {found}: {how}; GRAMOPHONE_RECORDINGS names their folder")
    return found
