# SPDX-License-Identifier: BSD-2-Clause
"""Broadcom V3D 4.2 and 7.1: jobs are described by registers, page tables are flat. Compute jobs, lists of commands
that copy and what takes their place, shaders' instructions as text.

Not in here: registers (`trace_format/gpus/v3d*.toml`) and the device's driver (`tee_replayer/drivers/v3d42.c`).

Read first: jobs.py
"""

import re

from host_tools.families.family import Family, every_write
from host_tools.gpus.v3d.checkpoints import CHECKPOINTS
from host_tools.gpus.v3d.conversion import Registers
from host_tools.gpus.v3d.copies import TRANSFERS
from host_tools.gpus.v3d.jobs import addresses, work
from host_tools.gpus.v3d.listing import list_job
from host_tools.gpus.v3d.page_tables import V3dTables
from host_tools.gpus.v3d.planning import job_spans
from host_tools.gpus.v3d.shaders import read_shader
from host_tools.gpus.v3d.versions import VERSIONS
from host_tools.passes.program import Program

FAMILY = Family(
    gpus=tuple(VERSIONS),
    page_tables=V3dTables,
    conversion=Registers,
    first_written={"core0.CSD_QUEUED_CFG0": "core0.CSD_QUEUED_CFG1"},  # Linux v3d_sched.c
    starts=every_write,
    accesses=Program.observed,
    spans=job_spans,
    list_job=list_job,
    block_pages=1,
    tlb_only_flushes=True,
    cache_commands=re.compile(r"core0\.CTL_(L2T|SL|L2)CACTL"),
    job_addresses=addresses,
    job_work=work,
    read_shader=read_shader,
    describes_job=re.compile(r"core0\.CSD_QUEUED_CFG\d"),
    list_registers=re.compile(r"core0\.(CLE_CT[01]Q|PTB_).*"),
    transfers=TRANSFERS,
    checkpoints=CHECKPOINTS,
)
