# SPDX-License-Identifier: BSD-2-Clause
"""Rules from one Mali to another, as a file has them."""

from __future__ import annotations

from host_tools.gpus.mali.rules.file import RuleFile, parse

FILE = "mali_g52-to-mali_g71.toml"
PAIR = "mali_g52", "mali_g71"
HEAD = 'source = "mali_g52"\ntarget = "mali_g71"\n'
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
CODE_RULE = """
[[rule]]
name = "word"
kind = "code"
bits = 64
align = 16
offset = 8
from = 0x1122334455667788
to = 2
reason = "why"
fact = "whence"
"""
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


def rules(*parts: str) -> RuleFile:
    return parse(FILE, "".join([HEAD, *parts]).encode(), *PAIR)
