# SPDX-License-Identifier: BSD-2-Clause
"""What a pass is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from host_tools.families.family import Family, family_of
from host_tools.model.memory import Conflict
from host_tools.passes.program import Program
from host_tools.support.results import Result
from trace_format.actions import Actions
from trace_format.profile import Profile
from trace_format.trace import Trace

ChangeActions = Callable[[Actions, Profile], Actions]


@dataclass(frozen=True)
class Option:
    """The option of `build` that asks for a pass.

    Attributes:
        name: with its dashes.
        unit: of its number, which is positive; "": it is a flag.
        help: for people.
        result: name in `build --json` of what the pass has done.
        facts: type of that.
    """

    name: str
    unit: str
    help: str
    result: str
    facts: type[Result]


@dataclass(frozen=True)
class Pass:
    """A named change of a program.

    Attributes:
        what: one line for people.
        edit: changes the program, and returns why it could not, "" where it could.
        option: what asks for it; None: it runs unasked.
        family: the GPUs that it is for; None: all. Programs for others neither run nor name it.
        changes_jobs: afterwards jobs are not the recording's any more, so what its note says of them is checked
            before.
    """

    name: str
    what: str
    edit: Callable[[Program], str]
    option: Option | None = None
    family: Family | None = None
    changes_jobs: bool = False

    def is_for(self, profile: Profile) -> bool:
        """Whether programs for this GPU run it."""
        return self.family in (None, family_of(profile))

    def apply(self, trace: Trace) -> Trace:
        """The pass by itself: the trace as it is where there is nothing to do, or an option must ask for it."""
        if self.option or not self.is_for(trace.profile):
            return trace
        program = Program(trace)
        self.edit(program)
        return program.trace()

    def __call__(self, trace: Trace) -> Trace:
        """Apply the pass."""
        return self.apply(trace)


def _what(function: Callable[..., object]) -> str:
    return (function.__doc__ or "").splitlines()[0]


def program_pass(name: str) -> Callable[[Callable[[Program], None]], Pass]:
    """Make the decorated function a pass; the first line of its documentation says what it does."""

    def register(function: Callable[[Program], None]) -> Pass:
        def edit(program: Program) -> str:
            function(program)
            return ""

        return Pass(name, _what(function), edit)

    return register


def action_pass(name: str) -> Callable[[ChangeActions], Pass]:
    """Make a pass of a function that makes new actions of those of a GPU."""

    def register(function: ChangeActions) -> Pass:
        return Pass(name, _what(function), lambda program: _change(program, function))

    return register


def _change(program: Program, function: ChangeActions) -> str:
    old = program.actions
    new = function(old, program.profile)
    if new is not old:
        program.actions = new
    return ""


def memory_pass(name: str) -> Callable[[Callable[[Program], None]], Pass]:
    """Make a pass of a function over a program's memory; one that `Program.memory` refuses stays as it is."""

    def register(function: Callable[[Program], None]) -> Pass:
        def edit(program: Program) -> str:
            try:
                function(program)
            except Conflict as conflict:
                return str(conflict)
            return ""

        return Pass(name, _what(function), edit)

    return register
