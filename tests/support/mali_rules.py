# SPDX-License-Identifier: BSD-2-Clause
"""Rules from one Mali to another, as a file has them."""

from __future__ import annotations

from host_tools.gpus.mali.rules.file import RuleFile, parse

FILE = "g72-to-g71.toml"
PAIR = "mali_g72", "mali_g71"
HEAD = 'source = "mali_g72"\ntarget = "mali_g71"\n'
DESCRIPTOR = """
[[rule]]
name = "field"
kind = "descriptor"
job = "compute"
field = "parameters.job task split"
from = 1
to = 2
reason = "why"
fact = "whence"
"""
STATE = DESCRIPTOR.replace("parameters.job task split", "draw.state.preload 23").replace("to = 2", "to = 0")
REGISTER = """
[[rule]]
name = "register"
kind = "register"
registers = ["gpu.JM_CONFIG"]
to = 4
reason = "why"
fact = "whence"
"""
OPERATION = """
[[rule]]
name = "operation"
kind = "operation"
names = ["FRCP_APPROX.f32"]
fma = [[0x200000, 0x7e0000]]
add = [[0x20000, 0xf0000]]
but = [[0x200001, 0x7fffff]]
operands = ["lane_id"]
reason = "why"
fact = "whence"
"""
CORES = """
[[rule]]
name = "cores"
kind = "register"
registers = ["js*.AFFINITY_NEXT_LO"]
keep = "cores"
reason = "why"
fact = "whence"
"""

# Rules about all that mali_rule_samples.py has.
OF_THE_SAMPLE = """
[[rule]]
name = "job-task-split"
kind = "descriptor"
job = "compute"
field = "parameters.job task split"
from = 8
to = 7
reason = "why"
fact = "whence"

[[rule]]
name = "shader-register-allocation"
kind = "descriptor"
job = "compute"
field = "draw.state.shader register allocation"
from = 2
to = 0
reason = "why"
fact = "whence"

[[rule]]
name = "preload"
kind = "descriptor"
job = "compute"
field = "draw.state.preload 23"
from = 0
to = 1
reason = "why"
fact = "whence"

[[rule]]
name = "identity"
kind = "register"
registers = ["gpu.GPU_ID", "gpu.*_FEATURES*", "gpu.*_PRESENT*"]
reason = "why"
fact = "whence"

[[rule]]
name = "job-manager-settings"
kind = "register"
registers = ["gpu.JM_CONFIG"]
to = 0x4
reason = "why"
fact = "whence"

[[rule]]
name = "core-settings"
kind = "register"
registers = ["gpu.SHADER_CONFIG", "gpu.TILER_CONFIG", "gpu.L2_MMU_CONFIG"]
to = 0x0
reason = "why"
fact = "whence"

[[rule]]
name = "coherency"
kind = "register"
registers = ["gpu.COHERENCY_ENABLE"]
to = 0x1f
reason = "why"
fact = "whence"
"""


def rules(*parts: str) -> RuleFile:
    return parse(FILE, "".join([HEAD, *parts]).encode(), *PAIR)
