# SPDX-License-Identifier: BSD-2-Clause
"""Dask: a cluster of this computer, or any scheduler by its address (https://distributed.dask.org)."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import dask

# Before `distributed` is imported, which sets its loggers up: a lost worker is not the user's concern.
LOGGERS = ("distributed", "distributed.client", "tornado.application")
dask.config.set({"logging": dict.fromkeys(LOGGERS, "critical")})

from distributed import Client, LocalCluster, Security  # noqa: E402
from distributed.comm.core import connect  # noqa: E402

from host_tools.extras.project.tasks.farm.schedulers import LOCAL, Scheduler, SchedulerError  # noqa: E402
from host_tools.support.progress import phase  # noqa: E402

ANSWER_S = 20.0  # for a scheduler to answer
START_S = 5  # for a worker of this computer to start again
LOST = 20  # workers that a task may outlive, on this computer: more, and it is the task that ends them


@contextmanager
def scheduler(address: str, wait_s: float) -> Iterator[Scheduler]:
    """A Dask scheduler: `local:2`, tcp://HOST:PORT, or tls://HOST:PORT with certificates of Dask's configuration.

    Args:
        address: where it is.
        wait_s: seconds until it must have its first worker.

    Raises:
        SchedulerError: the address is wrong, nobody answers there, or it has no worker.
    """
    with ExitStack() as stack:
        where = stack.enter_context(_local(address)) if address.startswith(f"{LOCAL}:") else address
        try:
            if isinstance(where, str):
                asyncio.run(_probe(where))
            client = stack.enter_context(Client(where, timeout=ANSWER_S, set_as_default=False))
        except (OSError, ValueError, TypeError) as error:
            text = next(iter(str(error).splitlines()), "") or "does not answer"
            raise SchedulerError(f"{address}: no Dask scheduler answers within {ANSWER_S:.0f} s: {text}") from None
        try:
            with phase(f"{address}: waiting for a worker"):
                client.wait_for_workers(1, timeout=wait_s)
        except TimeoutError:
            raise SchedulerError(f"{address}: no worker for {wait_s:g} s, expected one at least") from None
        slots = sum(worker["nthreads"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())
        # Without bokeh a scheduler of this computer shows no pages; that of others is asked for nothing.
        shows = not isinstance(where, LocalCluster) or importlib.util.find_spec("bokeh")
        link = client.dashboard_link if shows else ""
        yield Scheduler(address, client.get_executor(pure=False), slots, partial(_workers, client, where), link)


def _workers(client: Client, where: str | LocalCluster) -> int:
    """How many workers there are; one that is silent is counted until the scheduler gives it up."""
    if isinstance(where, LocalCluster):
        where.scale(len(where.worker_spec))  # again: one that was lost while it started, nobody starts again
    if client.scheduler is None:
        return 0
    try:
        said = client.sync(client.scheduler.identity, n_workers=0, callback_timeout=ANSWER_S)
        return int(said["n_workers"])
    except (OSError, RuntimeError):  # the client has lost its scheduler
        return 0


async def _probe(address: str) -> None:
    """See that somebody there speaks as Dask does: the client itself would wait for ever for who is silent."""
    security = Security().get_connection_args("client")
    comm = await asyncio.wait_for(connect(address, timeout=ANSWER_S, **security), ANSWER_S)
    await comm.close()


@contextmanager
def _local(address: str) -> Iterator[LocalCluster]:
    match = re.fullmatch(rf"{LOCAL}:(\d{{1,3}})", address)
    if not match or not int(match[1]):
        raise SchedulerError(f"{address!r}: expected {LOCAL}:N, with N workers from 1 to 999")
    settings = {
        "distributed.scheduler.allowed-failures": LOST,
        "distributed.deploy.lost-worker-timeout": f"{START_S} s",
        "distributed.nanny.pre-spawn-environ": {},  # programs get the same variables as without a farm
    }
    with dask.config.set(settings), ExitStack() as stack:
        try:
            cluster = LocalCluster(
                n_workers=int(match[1]),
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL,  # of workers
                memory_limit=None,  # tasks are programs of their own: a worker's own memory says nothing
            )
        except (OSError, RuntimeError) as error:
            raise SchedulerError(f"{address}: the workers do not start: {error}") from error
        yield stack.enter_context(cluster)
