# SPDX-License-Identifier: BSD-2-Clause
"""Workers and schedulers that are lost: the result is the same, or an error says what is not done."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.extras.project.tasks.farm.schedulers import Scheduler, scheduler
from host_tools.extras.project.tasks.farm.shared import Shared
from host_tools.extras.project.tasks.graph import State
from host_tools.extras.project.tasks.hands import Gone
from host_tools.extras.project.tasks.task import Task
from tests.support.buckets import bucket_store
from tests.support.farm import RULES, WAIT_S, Operated, Project, program, project_file

__all__ = ["bucket_store"]
BURST = 3  # workers that are killed before one must be there
SPAWNED = "multiprocessing.spawn"  # in the command line of a worker of this computer


@pytest.fixture
def workers_of() -> Iterator[Callable[[], Scheduler]]:
    """Starts workers: they have the environment of that moment."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(scheduler("local:3", WAIT_S))


@pytest.fixture
def workers(workers_of: Callable[[], Scheduler]) -> Scheduler:
    return workers_of()


def test_a_worker_that_is_killed_changes_nothing_and_leaves_no_program(tmp_path: Path, workers: Scheduler) -> None:
    project = Project(tmp_path, workers)
    mark = tmp_path / "mark"
    rules = {"Makefile": project.rules, "text": project.text}
    task = Task("killing", ("make", "killing", f"MARK={mark}"), rules, output="killing")
    done, found = project.farm([task, *project.tasks()])
    assert [row.state for row in done] == [State.MADE] * 4, done
    assert mark.read_text() == "", "what the first worker had begun ended with it"
    assert found == project.here([task, *project.tasks()])


@pytest.mark.parametrize(
    ("kills", "where"),
    [
        (4, ""),
        pytest.param(50, "", marks=pytest.mark.exhaustive),
        pytest.param(50, "s3://bucket/farm", marks=pytest.mark.exhaustive),
    ],
)
def test_workers_killed_at_random_change_nothing(
    tmp_path: Path, workers_of: Callable[[], Scheduler], kills: int, where: str, request: pytest.FixtureRequest
) -> None:
    """Also while they start, or start again; what they share is a folder, or an object store."""
    if where:
        request.getfixturevalue("store")
    workers = workers_of()
    chance, killed, over = random.Random(kills), 0, threading.Event()

    def kill() -> None:
        nonlocal killed
        while killed < kills and not over.wait(chance.uniform(0, 1.5)):
            with suppress(psutil.Error, IndexError):  # it has just ended, or none is there
                children = psutil.Process().children()
                chance.choice([child for child in children if SPAWNED in " ".join(child.cmdline())]).kill()
                killed += 1
            # A machine that is busy may take longer to start one than they live.
            while killed % BURST == 0 and not workers.workers() and not over.wait(0.1):
                pass

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        number = 0
        while killed < kills:
            assert killer.is_alive() or killed == kills
            number += 1
            folder = tmp_path / str(number)
            folder.mkdir()
            project = Project(folder, workers)
            project.shared = Shared(f"{where}/{number}") if where else project.shared
            project.text.write_text(str(number))
            rules = {"Makefile": project.rules, "text": project.text}
            slow = [Task(f"slow-{one}", ("make", f"slow-{one}"), rules, output=f"slow-{one}") for one in range(6)]
            tasks = [*slow, *project.tasks()]
            done, found = project.farm(tasks)
            assert {row.state for row in done} == {State.MADE}, done
            assert found == project.here(tasks)
    finally:
        over.set()
        killer.join()


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Operated]:
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", f"{tmp_path}/address"]
    local = ["--host", "127.0.0.1", "--no-dashboard", "--local-directory", str(tmp_path), "--no-nanny"]
    with program("scheduler", *options) as first:
        while not (tmp_path / "address").exists():
            assert first.poll() is None
            time.sleep(0.1)
        address = json.loads((tmp_path / "address").read_text())["address"]
        with program("worker", address, *local, "--nthreads", "1") as second:
            yield Operated(address, first.pid, second.pid)


def test_a_scheduler_by_its_address_and_when_it_is_lost(tmp_path: Path, operated: Operated) -> None:
    with scheduler(operated.address, WAIT_S) as workers:
        project = Project(tmp_path, workers)
        done, found = project.farm(project.tasks())
        assert [row.state for row in done] == [State.MADE] * 3
        assert found == project.here(project.tasks())
        end = f"upper: text\n\tkill -9 {operated.scheduler}; sleep 20\n"
        project.rules.write_text(RULES.replace("upper: text\n", end))
        lost = f"{operated.address}: the scheduler is lost; 3 of 3 tasks are not done: upper, folder, first"
        with pytest.raises(Gone, match=f"^{re.escape(lost)}$"):
            project.farm(project.tasks())


def test_workers_that_are_lost_are_waited_for_and_then_not(tmp_path: Path, operated: Operated) -> None:
    """What was made before that stays, and another worker does the rest."""
    mark = tmp_path / "mark"
    with scheduler(operated.address, WAIT_S) as workers:
        project = Project(tmp_path, workers)
        project.wait_s = 2.0
        kills = f"folder:\n\t[ -e {mark} ] || {{ touch {mark}; kill -9 {operated.worker}; sleep 20; }}\n"
        project.rules.write_text(RULES.replace("folder:\n", kills))
        lost = (
            f"{operated.address}: no worker for 2 s, expected one at least; "
            "2 of 3 tasks are not done: folder, first"
        )
        with pytest.raises(Gone, match=f"^{re.escape(lost)}$"):
            project.farm(project.tasks())
    another = ["--host", "127.0.0.1", "--no-dashboard", "--local-directory", str(tmp_path)]
    with program("worker", operated.address, *another), scheduler(operated.address, WAIT_S) as workers:
        project.workers, project.wait_s = workers, WAIT_S
        done, found = project.farm(project.tasks())
        assert [row.state for row in done] == [State.UP_TO_DATE, State.MADE, State.MADE], done
        assert found == project.here(project.tasks())


def test_a_command_line_without_workers(operated: Operated, tmp_path: Path) -> None:
    os.kill(operated.worker, signal.SIGKILL)
    options = ["--farm", operated.address, "--farm-store", tmp_path.as_uri(), "--worker-timeout", "1.5"]
    done = CliRunner().invoke(main, ["make", str(project_file(tmp_path)), *options])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"error: {operated.address}: no worker for 1.5 s, expected one at least\n"
