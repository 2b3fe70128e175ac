# SPDX-License-Identifier: BSD-2-Clause
"""Unpacking of tar archives, in every Python that the project supports."""

from __future__ import annotations

import tarfile
from pathlib import Path


def extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract all of an archive of our own; filtered where Python can do that, which is from 3.11.4 on."""
    if hasattr(tarfile, "data_filter"):
        archive.extraction_filter = tarfile.data_filter
    archive.extractall(folder)
