# SPDX-License-Identifier: BSD-2-Clause
"""Doing what is not up to date: several tasks at a time, and a failure leaves what does not depend on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush

from host_tools.extras.project.tasks.hands import Gone, Hands, Here, NotDone
from host_tools.extras.project.tasks.store import Entry, Store
from host_tools.extras.project.tasks.task import Task, check_names, key_of
from host_tools.support.progress import phase
from trace_format.errors import GramophoneError, listed, sentence

NEW = "not made before"
GONE = "not in the cache any more"
NAMED = 5  # tasks that an error names


class State(StrEnum):
    """What has become of a task."""

    UP_TO_DATE = "up to date"
    MADE = "made"
    TO_DO = "to do"  # of a dry run
    FAILED = "failed"
    LEFT = "left"  # something that it uses failed


@dataclass(frozen=True)
class Done:
    """A task, and what has become of it.

    Attributes:
        why: why it was, or would be, done; of one that failed, the error.
        ingredients: what it was made of; empty where that is not known.
        entry: its result, if there is one.
    """

    task: Task
    state: State
    why: str = ""
    ingredients: Mapping[str, str] | None = None
    entry: Entry | None = None


Known = Mapping[str, Mapping[str, str]]


def reason(before: Mapping[str, str] | None, now: Mapping[str, str]) -> str:
    """Why a task is not up to date, by what it was made of before."""
    if before is None:
        return NEW
    changed = [name.partition(" as ")[0] for name, value in now.items() if before.get(name) != value]
    changed += [f"{name.partition(' as ')[0]} (no longer used)" for name in before if name not in now]
    return f"changed: {', '.join(dict.fromkeys(changed))}" if changed else GONE


def plan(tasks: Sequence[Task], store: Store, tool: str, before: Known) -> list[Done]:
    """What `run` would do, and why; nothing is done."""
    check_names(tasks)
    found: dict[str, Done] = {}
    for task in tasks:
        waits = [name for name in task.uses.values() if found[name].entry is None]
        if waits:
            found[task.name] = Done(task, State.TO_DO, f"uses {', '.join(dict.fromkeys(waits))}")
            continue
        try:
            ingredients = task.ingredients(_hashes(task, found), tool, task.stamp and task.stamp(False))
        except (OSError, GramophoneError) as error:
            found[task.name] = Done(task, State.FAILED, sentence(error))
            continue
        entry = store.find(key_of(ingredients))
        state = State.UP_TO_DATE if entry else State.TO_DO
        why = "" if entry else reason(before.get(task.name), ingredients)
        found[task.name] = Done(task, state, why, ingredients, entry)
    return list(found.values())


def run(
    tasks: Sequence[Task],
    store: Store,
    tool: str,
    before: Known,
    *,
    jobs: int = 1,
    hands: Hands | None = None,
    told: Callable[[Done], None] = lambda done: None,
) -> list[Done]:
    """Do what is not up to date.

    What has been made is in the store when `told` hears of it, so an interrupt loses only what is being done.

    Args:
        tasks: each after those that it uses.
        store: where results are kept.
        tool: as `task.tool_stamp`.
        before: task -> what it was made of the last time, for reasons.
        jobs: how many tasks are run at a time.
        hands: who does them; default: this computer.
        told: is told of each task when it is over, in this thread.

    Raises:
        Gone: as `Hands.make`; names what was not done.
    """
    check_names(tasks)
    hands = hands or Here(store)
    found: dict[str, Done] = {}
    running: set[Future[Done]] = set()
    places = {task.name: place for place, task in enumerate(tasks)}
    missing = {task.name: set(task.uses.values()) for task in tasks}
    users: dict[str, list[str]] = {task.name: [] for task in tasks}
    for name, uses in missing.items():
        for other in uses:
            users[other].append(name)
    ready = [places[name] for name, uses in missing.items() if not uses]  # a heap: the first come first

    def over(done: Done) -> None:
        found[done.task.name] = done
        told(done)
        for name in users[done.task.name]:
            missing[name].discard(done.task.name)
            if not missing[name]:
                heappush(ready, places[name])

    pool = ThreadPoolExecutor(jobs)
    try:
        while ready or running:
            while ready and len(running) < jobs:
                task = tasks[heappop(ready)]
                if failed := [name for name in task.uses.values() if found[name].entry is None]:
                    over(Done(task, State.LEFT, f"needs {', '.join(dict.fromkeys(failed))}"))
                else:
                    running.add(pool.submit(_one, task, found, store, tool, before.get(task.name), hands))
            if running:
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(ended, key=lambda future: future.exception() is not None):
                    over(future.result())
    except Gone as error:
        hands.stop()
        left = [task.name for task in tasks if task.name not in found]
        named = [*left[:NAMED], *([f"{len(left) - NAMED} others"] if len(left) > NAMED else [])]
        raise Gone(f"{error}; {len(left)} of {len(tasks)} tasks are not done: {listed(named)}") from None
    except BaseException:
        hands.stop()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)  # programs of tasks end with this process's signal
    return [found[task.name] for task in tasks]


def _one(
    task: Task, found: Mapping[str, Done], store: Store, tool: str, before: Mapping[str, str] | None, hands: Hands
) -> Done:
    try:
        ingredients = task.ingredients(_hashes(task, found), tool, hands.stamp(task) if task.stamp else None)
        key = key_of(ingredients)
        if entry := store.find(key):
            return Done(task, State.UP_TO_DATE, "", ingredients, entry)
        used = {name: entry for name in task.uses.values() if (entry := found[name].entry)}
        try:
            with phase(task.name):
                entry = hands.make(task, key, ingredients, used)
        except NotDone as error:
            return Done(task, State.FAILED, str(error), ingredients)
        return Done(task, State.MADE, reason(before, ingredients), ingredients, entry)
    except Gone:
        raise
    except (OSError, GramophoneError) as error:
        return Done(task, State.FAILED, sentence(error))


def _hashes(task: Task, found: Mapping[str, Done]) -> dict[str, str]:
    entries = {name: found[name].entry for name in task.uses.values()}
    return {name: entry.sha256 for name, entry in entries.items() if entry}
