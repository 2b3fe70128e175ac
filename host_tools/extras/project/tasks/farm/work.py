# SPDX-License-Identifier: BSD-2-Clause
"""What a worker of a farm runs: one task, of content from the store, whose result goes back there.

A worker knows nothing that outlasts an order, so one that is lost, or does the same as another, changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from host_tools.extras.project.tasks.farm.shared import Artefact, Shared
from host_tools.extras.project.tasks.hands import done_in
from host_tools.extras.project.tasks.task import Answer, Task
from host_tools.support.unchanged import EPOCH, content_hash, tool_stamp
from trace_format.errors import GramophoneError, sentence

# Of util-linux, which Debian always has: a worker that is killed leaves no program behind.
WITH_WORKER = ("setpriv", "--pdeathsig", "TERM", "--")


@dataclass(frozen=True)
class Order:
    """A task for a worker.

    Attributes:
        task: what is to be done; where its files lie is not known there.
        key: the result's name.
        tool: as `tool_stamp`, here.
        stamp: what `task.stamp` must say there; None where there is none.
        epoch: $SOURCE_DATE_EPOCH; "": it is not set.
        store: URL of the store.
        inputs: name in the folder -> what it is.
    """

    task: Task
    key: str
    tool: str
    stamp: str | None
    epoch: str
    store: str
    inputs: Mapping[str, Artefact]


@dataclass(frozen=True)
class Reply:
    """What came of an order.

    Attributes:
        answer: what the task said; status 2: it could not be done.
        output: what it wrote, which is in the store.
        missing: names of inputs that the store does not have, or not whole; then nothing was done.
    """

    answer: Answer
    output: Artefact | None = None
    missing: tuple[str, ...] = ()


def stamp(ask: Callable[[bool], str]) -> tuple[str, str]:
    """What a stamp says on this computer, and the error if it says nothing."""
    try:
        return ask(True), ""
    except (OSError, GramophoneError) as error:
        return "", sentence(error)


def work(order: Order) -> Reply:
    """Do what an order says. Errors are answers: a scheduler need not carry exceptions."""
    try:
        return _work(order)
    except (OSError, GramophoneError) as error:
        return _failed(sentence(error))


def _work(order: Order) -> Reply:
    task = order.task
    if (found := tool_stamp()) != order.tool:
        return _failed(f"a worker has another gramophone, or other packages: expected {order.tool}, found {found}")
    if task.stamp and (said := task.stamp(True)) != order.stamp:
        return _failed(f"workers differ: expected {order.stamp}, found {said}")
    with TemporaryDirectory(prefix="gramophone-") as name:
        given, folder = Path(name) / "given", Path(name) / "folder"
        given.mkdir()
        folder.mkdir()
        for name in order.inputs:  # what a device file names may lie in folders below it
            (given / name).parent.mkdir(parents=True, exist_ok=True)
        shared = Shared(order.store)
        missing = [name for name, artefact in order.inputs.items() if not shared.get(artefact, given / name)]
        if missing:
            return Reply(Answer(2, {}, "inputs are missing"), missing=tuple(missing))
        there = replace(task, files={name: given / name for name in task.files})
        made = {other: given / name for name, other in task.uses.items()}
        epoch = ("env", f"{EPOCH}={order.epoch}") if order.epoch else ("env", "-u", EPOCH)
        answer, output = done_in(there, folder, made, (*WITH_WORKER, *epoch))
        artefact = Artefact(content_hash(output), output.is_dir()) if output else None
        if output and artefact:
            shared.put(output, artefact, given)
        shared.keep(order.key, answer, artefact, given)
        return Reply(answer, artefact)


def _failed(error: str) -> Reply:
    return Reply(Answer(2, {}, error))
