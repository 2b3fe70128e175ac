# SPDX-License-Identifier: BSD-2-Clause
"""A small project of tasks for a farm, and schedulers and workers as operators start them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from host_tools.cli import main
from host_tools.extras.project.tasks.farm.hands import Farm
from host_tools.extras.project.tasks.farm.schedulers import Scheduler
from host_tools.extras.project.tasks.farm.shared import Shared
from host_tools.extras.project.tasks.graph import Done, run
from host_tools.extras.project.tasks.store import Store
from host_tools.extras.project.tasks.task import Task
from host_tools.support.unchanged import tool_stamp

WAIT_S = 30.0  # for a worker

# `killing` ends the worker that it runs on, the first time, and what is left of it says so if it goes on.
RULES = """\
upper: text
\ttr a-z A-Z <text >upper
folder:
\tmkdir -p folder/deep && cp upper folder/deep/copy && echo run >folder/tool && chmod +x folder/tool
first:
\thead -c 1 folder/deep/copy >first && echo "$$SOURCE_DATE_EPOCH" >>first
killing: text
\t[ -e $(MARK) ] || { touch $(MARK); \\
\t\tkill -9 $$(cut -d' ' -f4 /proc/$$PPID/stat); sleep 1; echo survived >$(MARK); }
\ttr a-z A-Z <text >killing
slow-%: text
	sleep 0.3; cp text $@
nested: deep/er/text
	cp deep/er/text nested
secret: key
\tcp key secret
"""


class Project:
    """Files and tasks of a project, with a store and a farm's store of its own."""

    def __init__(self, folder: Path, workers: Scheduler) -> None:
        self.workers, self.wait_s = workers, WAIT_S
        self.folder, self.rules, self.text = folder, folder / "Makefile", folder / "text"
        self.rules.write_text(RULES)
        self.text.write_text("abc")
        self.tool = tool_stamp()
        self.shared = Shared((folder / "shared").as_uri())

    def tasks(self) -> list[Task]:
        rules = {"Makefile": self.rules}
        return [
            Task("upper", ("make", "upper"), {**rules, "text": self.text}, output="upper"),
            Task("folder", ("make", "folder"), rules, {"upper": "upper"}, output="folder"),
            Task("first", ("make", "first"), rules, {"folder": "folder"}, output="first"),
        ]

    def here(self, tasks: list[Task]) -> dict[str, bytes]:
        """What one process makes of them."""
        store = Store(self.folder / "here")
        run(tasks, store, self.tool, {})
        return content(store)

    def farm(self, tasks: list[Task], store: str = "there") -> tuple[list[Done], dict[str, bytes]]:
        """What has become of each task on the farm, and this computer's store after that."""
        kept = Store(self.folder / store)
        hands = Farm(self.workers, self.shared, kept, self.tool, self.wait_s)
        done = run(tasks, kept, self.tool, {}, jobs=2, hands=hands)
        return done, content(kept)


def content(store: Store) -> dict[str, bytes]:
    """All bytes of a store, and which of its files are executable."""
    files = [path for path in store.folder.rglob("*") if path.is_file()]
    return {f"{path.relative_to(store.folder)} {os.access(path, os.X_OK)}": path.read_bytes() for path in files}


@dataclass
class Operated:
    """A scheduler and its only worker, each in a process of its own, as operators start them."""

    address: str
    scheduler: int
    worker: int


@contextmanager
def program(kind: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A scheduler or a worker, as operators start them."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as started:
        try:
            yield started
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)


def project_file(folder: Path) -> Path:
    """A project file whose recording is not there."""
    for words in (
        ["key", "new", "-o", f"{folder}/k.pem"],
        ["key", "public", f"{folder}/k.pem", "-o", f"{folder}/p.pem"],
    ):
        assert CliRunner().invoke(main, words).exit_code == 0
    file = folder / "gramophone.toml"
    file.write_text(
        '[keys.k]\nsigning-key = "k.pem"\npublic = "p.pem"\n'
        '[networks.net]\nrecording = "net.raw.gtr"\ngpus = ["v3d42"]\n'
    )
    return file
