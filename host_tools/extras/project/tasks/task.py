# SPDX-License-Identifier: BSD-2-Clause
"""A command line whose result depends on its words, its inputs' content and the tool, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from host_tools.support.programs import run
from host_tools.support.unchanged import EPOCH, content_hash
from trace_format.errors import GramophoneError

STAMP = "packages of the recording machine"
LAST_WORDS = 300  # characters of what a program said before it failed


@dataclass(frozen=True)
class Task:
    """One command line, run in a folder that has its inputs under names of their own and nothing else.

    Attributes:
        name: `lenet.v3d42/build`: what it is for, and what is done.
        words: the command line: of `gramophone`, or of `make` if that is its first word.
        files: name in the folder -> file or folder of the user.
        uses: name in the folder -> task whose output it is.
        output: name in the folder of what it writes, a file or a folder; "": its answer is the result.
        into: whether the output is a folder that must be there before.
        changed: name among `uses` that it changes in place, and which is its output.
        place: where the output is put, below the project's folder `out`; "" nowhere.
        stamp: what else its result depends on, such as the guest's packages; may prepare them if it is given True.
        here: whether it stays on this computer, whoever does the others: it reads a private key or a token.
    """

    name: str
    words: tuple[str, ...]
    files: Mapping[str, Path] = field(default_factory=dict)
    uses: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    into: bool = False
    changed: str = ""
    place: str = ""
    stamp: Callable[[bool], str] | None = None
    here: bool = False

    def ingredients(self, made: Mapping[str, str], tool: str, stamp: str | None) -> dict[str, str]:
        """What the result depends on, each with a hash or as it is; two tasks with the same have the same result.

        Args:
            made: task -> SHA-256 of its output, of all in `uses`.
            tool: as `tool_stamp`.
            stamp: what `stamp` says, if there is one.

        Raises:
            OSError: a file cannot be read.
        """
        found = {"options": json.dumps(self.words), "the tool": tool}
        found |= {f"{path.name} as {name}": content_hash(path) for name, path in self.files.items()}
        found |= {f"{task} as {name}": made[task] for name, task in self.uses.items()}
        if epoch := os.environ.get(EPOCH):
            found[EPOCH] = epoch
        if stamp is not None:
            found[STAMP] = stamp
        return found


@dataclass(frozen=True)
class Answer:
    """What came of a task.

    Attributes:
        status: exit status: 0; 1 where the answer is no; 2 where it could not be done, which is not kept.
        data: what the command printed with --json.
        error: one sentence; "" if it was done.
    """

    status: int
    data: dict[str, Any]
    error: str = ""


def key_of(ingredients: Mapping[str, str]) -> str:
    """The name of a result in the store."""
    return hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()


def perform(task: Task, folder: Path, made: Mapping[str, Path], prefix: tuple[str, ...] = ()) -> Answer:
    """Run a task in an empty folder, where its output is afterwards.

    Args:
        task: what to run.
        folder: for its inputs and its output.
        made: task -> its output, of all in `uses`.
        prefix: a program that starts the command line which follows it.
    """
    for name, path in task.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(path.resolve())  # not copied: a private key has one place
    for name, other in task.uses.items():
        if name == task.changed:
            shutil.copytree(made[other], folder / name, symlinks=True)
        else:
            (folder / name).symlink_to(made[other])
    if task.into:
        (folder / task.output).mkdir()
    if task.words[0] == "make":
        done = run([*prefix, *task.words], cwd=folder, merged=True)
        return Answer(0, {}) if done.returncode == 0 else Answer(2, {}, _said(done))
    # -P: a file of the user in this folder is not taken for a module
    command = [*prefix, sys.executable, "-P", "-m", "host_tools.cli", *task.words, "--json", "--quiet"]
    done = run(command, cwd=folder)
    try:
        data = json.loads(done.stdout)
    except ValueError:
        return Answer(2, {}, _said(done))
    if done.returncode not in (0, 1):
        return Answer(2, {}, str(data.get("error") or _said(done)))
    return Answer(done.returncode, data)


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in ((done.stderr or "") + (done.stdout or "")).splitlines() if line.strip()]
    last = " | ".join(lines[-3:])[-LAST_WORDS:]
    return f"ended with status {done.returncode}{': ' + last if last else ''}"


def check_names(tasks: Sequence[Task]) -> None:
    """Each task is named once, and after those that it uses; GramophoneError names one that is not."""
    known: set[str] = set()
    for task in tasks:
        if task.name in known or not known.issuperset(task.uses.values()):
            raise GramophoneError(f"{task.name}: is there twice, or before what it uses")
        known.add(task.name)
