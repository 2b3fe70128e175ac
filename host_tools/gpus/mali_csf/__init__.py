# SPDX-License-Identifier: BSD-2-Clause
"""Arm Mali with command streams (since 2021): a job is one call of a stream of 64-bit instructions, and no trace
writes a register (docs/adr/0080-command-stream-malis.md). Calls as recordings have them, and how one is run.

Not in here: what Malis with a job manager also have, in `gpus/mali`: page tables, Valhall's instructions and
descriptors, the C model; registers (`trace_format/gpus/mali_g610.toml`).

Read first: conversion.py
"""

import re

from host_tools.families.family import Family, every_write
from host_tools.gpus.mali_csf.conversion import Calls
from host_tools.gpus.mali_csf.judging import flaws
from host_tools.gpus.mali_csf.page_tables import CsfTables
from host_tools.gpus.mali_csf.passes import PASSES
from host_tools.passes.program import Program

FAMILY = Family(
    gpus=("mali_g610",),
    page_tables=CsfTables,
    conversion=Calls,
    first_written={},
    starts=every_write,
    accesses=Program.observed,
    spans=lambda program: None,
    block_pages=1,  # memory is packed, so few blocks of 2 MiB would be whole
    tlb_only_flushes=False,
    cache_commands=re.compile(r"as\d+\.COMMAND"),
    frames_are_buffers=True,
    check=flaws,
    passes={"constants": PASSES},
)
