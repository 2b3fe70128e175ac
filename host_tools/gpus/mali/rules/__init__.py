# SPDX-License-Identifier: BSD-2-Clause
"""Recordings of one GPU for another: rule files, and what applies them."""

from host_tools.families.retargeting import Applied
from host_tools.gpus.mali.rules.file import RuleError, RuleFile, available
from host_tools.gpus.mali.rules.retarget import apply, retarget

__all__ = ["Applied", "RuleError", "RuleFile", "apply", "available", "retarget"]
