# SPDX-License-Identifier: BSD-2-Clause
"""What a recording's notes say of state: slots whose value goes from a replay to the next, if a network's file
has such variables. `build` keeps them without being asked.
"""

from __future__ import annotations

from typing import Any

from trace_format.errors import SectionError

NEXT = "next_"  # begins the name of the output that is the next value of state which jobs change in place
NOTE = "states"  # in the notes: input -> output that is its next value


def noted_states(notes: dict[str, Any]) -> dict[str, str]:
    """Input -> output that is its next value; empty where the notes say nothing.

    Raises:
        SectionError: the note is something else.
    """
    states = notes.get(NOTE, {})
    if not isinstance(states, dict) or not all(isinstance(name, str) for name in states.values()):
        raise SectionError(f"notes: {NOTE}: expected names of slots, found {str(states)[:80]!r}")
    return states
