# SPDX-License-Identifier: BSD-2-Clause
"""What describes a dispatch of a command stream in GPU memory: `valhall_descriptors.toml` in Python."""

from __future__ import annotations

from importlib import resources

from host_tools.gpus.mali.descriptors import parse

FILE = "valhall_descriptors.toml"
TABLE = parse((resources.files(__package__) / FILE).read_bytes())
SHADER = TABLE.descriptors["shader program"]
STORAGE = TABLE.descriptors["thread storage"]
RESOURCES = TABLE.descriptors["resource table"]
BUFFER = TABLE.descriptors["buffer"]
MAX_TABLES = 63  # of a dispatch: the count is in the low bits of their address
