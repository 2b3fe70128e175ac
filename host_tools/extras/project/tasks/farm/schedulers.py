# SPDX-License-Identifier: BSD-2-Clause
"""Schedulers by their addresses.

A new one, such as Ray or a batch queue, is a file like dask_scheduler.py and a row here: it gives an Executor of
concurrent.futures, which most have, or are wrapped in by a few lines.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module

from trace_format.errors import GramophoneError, listed


class SchedulerError(GramophoneError):
    """A scheduler that cannot be used; names its address."""


@dataclass(frozen=True)
class Scheduler:
    """A scheduler that answers, and has workers.

    Attributes:
        address: as it was asked for.
        executor: runs a function on a worker, again if that is lost; futures are cancelled where nobody will.
        slots: how many functions run at a time.
        workers: how many workers it has now; 0 also where it does not answer.
        link: of a page that shows what is being done; "": there is none.
    """

    address: str
    executor: Executor
    slots: int
    workers: Callable[[], int]
    link: str


Open = Callable[[str, float], AbstractContextManager[Scheduler]]
# What an address begins with -> module of this folder with a function `scheduler(address, wait_s)`.
SCHEDULERS = {"local": "dask_scheduler", "tcp": "dask_scheduler", "tls": "dask_scheduler"}
LOCAL = "local"


def scheduler(address: str, wait_s: float) -> AbstractContextManager[Scheduler]:
    """The scheduler at an address, such as tcp://farm:8786, or `local:2`, two workers on this computer.

    Args:
        address: where it is.
        wait_s: seconds until it must have its first worker.

    Raises:
        SchedulerError: nobody knows such an address; later: it does not answer.
        ModuleNotFoundError: its package is not installed.
    """
    kind = address.partition(":")[0]
    if kind not in SCHEDULERS:
        known = listed([f"{name}:..." for name in SCHEDULERS])
        raise SchedulerError(f"{address!r}: not the address of a scheduler; expected {known}")
    opened: Open = import_module(f"host_tools.extras.project.tasks.farm.{SCHEDULERS[kind]}").scheduler
    return opened(address, wait_s)
