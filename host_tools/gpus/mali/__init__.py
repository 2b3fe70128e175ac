"""Arm Mali with a job manager: jobs are chains of descriptors in memory, page tables are trees."""

import re

from host_tools.gpus.family import Family

FAMILY = Family(
    gpus=("mali_g52", "mali_g71"),
    has_job_manager=True,
    block_pages=512,  # 2 MiB
    tlb_only_flushes=False,
    cache_commands=re.compile(r"as\d+\.COMMAND"),
    cache_states=re.compile(r"as\d+\.STATUS"),
)
