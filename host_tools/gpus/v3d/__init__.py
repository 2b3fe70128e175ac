"""Broadcom V3D: jobs are described by registers, page tables are flat."""

import re

from host_tools.gpus.family import Family

FAMILY = Family(
    gpus=("v3d42",),
    has_job_manager=False,
    block_pages=1,
    tlb_only_flushes=True,
    cache_commands=re.compile(r"core0\.CTL_(L2T|SL|L2)CACTL"),
    list_registers=re.compile(r"core0\.(CLE_CT[01]Q|PTB_).*"),
)
