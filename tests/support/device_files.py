# SPDX-License-Identifier: BSD-2-Clause
"""Device files for tests: what `gramophone generate` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tee_replayer.crypto import Libraries
from tee_replayer.generator.device_file import text_of

PLAIN = {"gpu": "v3d42", "platform": "qemu-virt", "key": "pub.pem", "profile": "plain"}


def rows(**more: Any) -> dict[str, Any]:
    """Those of a plain device with changes; None leaves a key out."""
    return {key: value for key, value in {**PLAIN, **more}.items() if value is not None}


def written(folder: Path, libraries: Libraries | None = None, **more: Any) -> Path:
    """A device file in a folder, with the crypto libraries' sources if there are any."""
    trees = {"bearssl": str(libraries.bearssl), "aws_lc": str(libraries.aws_lc)} if libraries else {}
    file = folder / "device.toml"
    file.write_text(text_of(rows(**trees, **more)))
    return file
