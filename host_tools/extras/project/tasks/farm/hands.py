# SPDX-License-Identifier: BSD-2-Clause
"""The farm as hands of the graph: what a worker misses is sent, what it has made is fetched, both hashed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, wait
from pathlib import Path
from typing import TypeVar

import cloudpickle

from host_tools.extras.project.tasks.farm.schedulers import Scheduler
from host_tools.extras.project.tasks.farm.shared import Artefact, Shared
from host_tools.extras.project.tasks.farm.work import Order, stamp, work
from host_tools.extras.project.tasks.hands import Gone, Here, NotDone
from host_tools.extras.project.tasks.store import Entry, Store
from host_tools.extras.project.tasks.task import STAMP, Answer, Task
from host_tools.support.unchanged import EPOCH
from trace_format.errors import GramophoneError

LOOK_S = 1.0  # between looks at whether there are workers
ATTEMPTS = 4  # the first finds inputs missing; more only where the store damages what it is given
What = TypeVar("What")
Result = TypeVar("Result")


class Farm:
    """Workers of a scheduler.

    Args:
        scheduler: who hands out orders.
        shared: the store that the workers reach, too.
        store: this computer's.
        tool: as `tool_stamp`.
        wait_s: seconds without any worker after which nobody is waited for.
    """

    def __init__(self, scheduler: Scheduler, shared: Shared, store: Store, tool: str, wait_s: float) -> None:
        self.scheduler, self.shared, self.store, self.tool, self.wait_s = scheduler, shared, store, tool, wait_s
        self.looking = threading.Lock()
        self.looked = 0.0
        self.none_since: float | None = None  # when it was first seen that there is no worker
        self.here = Here(store)
        self.stamps: dict[bytes, str] = {}
        self.lock = threading.Lock()

    def stamp(self, task: Task) -> str:
        """What the stamp says on the first worker that is asked; others must say the same."""
        assert task.stamp is not None
        if task.here:
            return self.here.stamp(task)
        name = cloudpickle.dumps(task.stamp)
        with self.lock:  # the others wait for the answer
            if name not in self.stamps:
                said, error = self._asked(stamp, task.stamp)
                if error:
                    raise GramophoneError(error)
                self.stamps[name] = said
            return self.stamps[name]

    def make(self, task: Task, key: str, ingredients: Mapping[str, str], used: Mapping[str, Entry]) -> Entry:
        """As `Hands.make`."""
        if task.here:
            return self.here.make(task, key, ingredients, used)
        if (found := self.shared.find(key)) and (entry := self._fetched(key, *found)):
            return entry
        # Hashes are those of the ingredients: a file that was changed since is not what the result is named after.
        paths = dict(task.files)
        inputs = {
            name: Artefact(ingredients[f"{path.name} as {name}"], path.is_dir()) for name, path in paths.items()
        }
        for name, other in task.uses.items():
            output = used[other].output
            assert output is not None
            paths[name] = output
            inputs[name] = Artefact(used[other].sha256, output.is_dir())
        epoch = os.environ.get(EPOCH, "")
        order = Order(task, key, self.tool, ingredients.get(STAMP), epoch, self.shared.url, inputs)
        missing: tuple[str, ...] = ()
        for _ in range(ATTEMPTS):
            with self.store.workplace() as folder:
                for name in missing:
                    self.shared.put(paths[name], inputs[name], folder)
            reply = self._asked(work, order)
            missing = reply.missing
            if not missing and reply.answer.status == 2:
                raise NotDone(reply.answer.error)
            if not missing and (entry := self._fetched(key, reply.answer, reply.output)):
                return entry
        what = f"{', '.join(missing)}: " if missing else ""
        raise NotDone(
            f"{self.shared.url}: {what}other than was written, {ATTEMPTS} times; or an input is changing"
        )

    def stop(self) -> None:
        """Give up orders that no worker has begun; of those that run, the results stay in the store."""
        self.scheduler.executor.shutdown(wait=False)

    def _fetched(self, key: str, answer: Answer, output: Artefact | None) -> Entry | None:
        """A result of the store, in this computer's; None: its output is not there, or not whole."""
        with self.store.workplace() as folder:
            path: Path | None = folder / "fetched" if output else None
            if path and output and not self.shared.get(output, path):
                return None
            return self.store.keep(key, answer, path)

    def _asked(self, function: Callable[[What], Result], what: What) -> Result:
        """What a worker answers; NotDone: none does, whatever the scheduler's reason is; Gone: none is there."""
        try:
            answer = self.scheduler.executor.submit(function, what)
            while not wait([answer], timeout=LOOK_S).done:
                self._look()
            return answer.result()
        except Gone:
            raise
        except CancelledError:
            raise Gone(f"{self.scheduler.address}: the scheduler is lost") from None
        except Exception as error:
            text = next(iter(str(error).strip().splitlines()), "")
            raise NotDone(f"no worker did it: {type(error).__name__}{': ' + text if text else ''}") from error

    def _look(self) -> None:
        """See whether there are workers; Gone: there have been none for too long."""
        with self.looking:
            now = time.monotonic()
            if now - self.looked >= LOOK_S:
                none = self.scheduler.workers() == 0
                self.looked = time.monotonic()
                self.none_since = (self.none_since or now) if none else None
            if self.none_since is not None and self.looked - self.none_since >= self.wait_s:
                raise Gone(f"{self.scheduler.address}: no worker for {self.wait_s:g} s, expected one at least")
