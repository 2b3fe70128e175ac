# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone make --farm`: from an address to the hands that do the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from host_tools.commands.extras import extra
from host_tools.commands.framework import UsageError, say
from host_tools.extras.project.tasks.store import Store
from host_tools.support.cache import cache_dir

if TYPE_CHECKING:
    from host_tools.extras.project.tasks.farm.hands import Farm

MODULES = ("cloudpickle", "dask", "distributed", "fsspec", "obstore")


@contextmanager
def farm(
    address: str, store_url: str | None, store: Store, tool: str, wait_s: float
) -> Iterator[tuple[Farm, int]]:
    """The farm, and how many tasks it takes at a time; while the context lasts.

    Args:
        address: of the scheduler.
        store_url: of what the workers read and write; None: a folder of this computer, where they are.
        store: this computer's.
        tool: as `tool_stamp`.
        wait_s: seconds without any worker after which nobody is waited for.

    Raises:
        UsageError: packages are missing, or the workers have no store.
        SchedulerError, SharedError: the scheduler, or the store, does not answer.
    """
    with extra("farm", *MODULES):
        from host_tools.extras.project.tasks.farm.hands import Farm
        from host_tools.extras.project.tasks.farm.schedulers import LOCAL, scheduler
        from host_tools.extras.project.tasks.farm.shared import Shared

        opened = scheduler(address, wait_s)
    if store_url is None and not address.startswith(f"{LOCAL}:"):
        raise UsageError(f"--farm {address} needs --farm-store URL: a store that its workers also reach")
    shared = Shared(store_url or cache_dir("farm").as_uri())
    shared.probe()
    with opened as found:
        pages = f"; dashboard: {found.link}" if found.link else "; no dashboard without the package bokeh"
        say(f"{address}: {found.slots} {'task' if found.slots == 1 else 'tasks'} at a time{pages}")
        yield Farm(found, shared, store, tool, wait_s), found.slots
