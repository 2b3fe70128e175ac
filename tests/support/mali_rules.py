# SPDX-License-Identifier: BSD-2-Clause
"""Rules from one Mali to another, as a file has them."""

from __future__ import annotations

from host_tools.gpus.mali.rules.file import RuleFile, parse

FILE = "mali_g52-to-mali_g71.toml"
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


def rules(*parts: str) -> RuleFile:
    return parse(FILE, "".join([HEAD, *parts]).encode())
