# SPDX-License-Identifier: BSD-2-Clause
"""Who does a task: this computer, or, with farm/, others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from host_tools.extras.project.tasks.store import Entry, Store
from host_tools.extras.project.tasks.task import Answer, Task, perform
from trace_format.errors import GramophoneError


class NotDone(GramophoneError):
    """A task could not be done; nothing is kept of it."""


class Gone(GramophoneError):
    """Who does tasks is not there any more: neither this one nor another can be done."""


class Hands(Protocol):
    """What the graph needs of who does tasks. Called in several threads."""

    def stamp(self, task: Task) -> str:
        """What the task's `stamp` says where the task is done.

        Raises:
            GramophoneError, OSError: it says nothing.
            Gone: nobody is there to say it.
        """

    def make(self, task: Task, key: str, ingredients: Mapping[str, str], used: Mapping[str, Entry]) -> Entry:
        """Do a task, and keep the result in this computer's store.

        Args:
            task: what is to be done.
            key: the result's name in the store.
            ingredients: what it is made of.
            used: task -> result, of all in `task.uses`.

        Raises:
            NotDone: it cannot be done.
            Gone: nobody is there to do it.
            OSError: as `Store.keep`.
        """

    def stop(self) -> None:
        """Give up what is being done, after an interrupt."""


class Here:
    """This computer."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def stamp(self, task: Task) -> str:
        """As `Hands.stamp`."""
        assert task.stamp is not None
        return task.stamp(True)

    def make(self, task: Task, key: str, ingredients: Mapping[str, str], used: Mapping[str, Entry]) -> Entry:
        """As `Hands.make`."""
        made = {name: entry.output for name, entry in used.items() if entry.output}
        with self.store.workplace() as folder:
            answer, output = done_in(task, folder, made)
            return self.store.keep(key, answer, output)

    def stop(self) -> None:
        """Programs end with this process's signal."""


def done_in(
    task: Task, folder: Path, made: Mapping[str, Path], prefix: tuple[str, ...] = ()
) -> tuple[Answer, Path | None]:
    """As `perform`, and where the output is; NotDone: there is no result."""
    answer = perform(task, folder, made, prefix)
    if answer.status == 2:
        raise NotDone(answer.error)
    output = folder / task.output if task.output else None
    if output and not output.exists():
        why = answer.data.get("reason") or answer.data.get("error") or f"status {answer.status}"
        raise NotDone(f"wrote no {task.output}: {why}")
    return answer, output
