# SPDX-License-Identifier: BSD-2-Clause
"""Recordings of one Mali for another: rule files (SOURCE-to-TARGET.toml), each rule with its reason and source,
and what applies them.

Not in here: page tables, which need no rule, and passes, which leave the GPU as it is.

Read first: file.py
"""

from host_tools.families.retargeting import Applied
from host_tools.gpus.mali.rules.file import RuleError, RuleFile, available
from host_tools.gpus.mali.rules.retarget import apply, retarget

__all__ = ["Applied", "RuleError", "RuleFile", "apply", "available", "retarget"]
