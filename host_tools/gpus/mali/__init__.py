# SPDX-License-Identifier: BSD-2-Clause
"""Arm Mali with a job manager: jobs are chains of descriptors in memory, page tables are trees. What only a job
manager needs is here: job chains and what they reach, where memory is planned by it, jobs that are done once
(preparation.py, splitting.py), descriptors, both drivers' recordings.

Not in here: registers (`trace_format/gpus/mali_*.toml`) and the device's driver
(`tee_replayer/drivers/mali_g71.c`).

Read first: job_chains.py
"""

import re

from host_tools.families.family import Family
from host_tools.gpus.mali.audit import check, follow
from host_tools.gpus.mali.chain_memory import chain_memory
from host_tools.gpus.mali.checkpoints import CHECKPOINTS
from host_tools.gpus.mali.job_manager import starts_chain
from host_tools.gpus.mali.listing import list_job
from host_tools.gpus.mali.page_tables import MaliTables
from host_tools.gpus.mali.panfrost import Registers
from host_tools.gpus.mali.passes import FAULT_CLEARS, PASSES
from host_tools.gpus.mali.planning import chain_spans
from host_tools.gpus.mali.preparation import prepare_once

FAMILY = Family(
    gpus=("mali_g31", "mali_g52r1", "mali_g71", "mali_g72"),
    page_tables=MaliTables,
    conversion=Registers,
    first_written={f"js{slot}.COMMAND_NEXT": f"js{slot}.HEAD_NEXT_LO" for slot in range(3)},  # panfrost_job.c
    starts=starts_chain,
    accesses=chain_memory,
    spans=chain_spans,
    follow=follow,
    check=check,
    queues=True,  # js*.*_NEXT
    frames_are_buffers=True,
    list_job=list_job,
    block_pages=512,  # 2 MiB
    tlb_only_flushes=False,
    cache_commands=re.compile(r"as\d+\.COMMAND"),
    cache_states=re.compile(r"as\d+\.STATUS"),
    fault_clears=FAULT_CLEARS,
    describes_job=re.compile(r"js\d+\.(HEAD|TAIL|AFFINITY|CONFIG|XAFFINITY)\w*_NEXT\w*"),
    checkpoints=CHECKPOINTS,
    passes={"no-op-lists": PASSES, "dead-memory": (prepare_once,)},
)
