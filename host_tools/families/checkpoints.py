# SPDX-License-Identifier: BSD-2-Clause
"""Where a family's replays can stop, and what a GPU then has that memory has not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trace_format.actions import Action
from trace_format.profile import Profile


@dataclass(frozen=True)
class Checkpoints:
    """What is known of a family.

    Attributes:
        begins: register before whose write the nano driver ends a step (gr_driver_begins_job); "": before a Job.
        describes: names of registers that describe a job; after a reset they are written anew for each.
        leaves_nothing: whether a write of this value to a register of this name does something at once, of which
            after a reset nothing is missed.
        resets: whether such a write takes every register's value away.
        cleans: whether what a job has written is in memory and in no cache, given the GPU and its actions from its
            Job to the next checkpoint.
    """

    begins: str
    describes: re.Pattern[str]
    leaves_nothing: Callable[[str, int], bool]
    resets: Callable[[str, int], bool]
    cleans: Callable[[Profile, Sequence[Action]], bool]
