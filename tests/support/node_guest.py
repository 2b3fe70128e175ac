# SPDX-License-Identifier: BSD-2-Clause
"""Compiled cases on a virtual GPU: many in one boot of the recording machine, each by a process of the runner."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from host_tools.machine.boot import boot
from host_tools.machine.errors import RecordError
from host_tools.machine.root import ready_root
from host_tools.record.compiled import runner
from host_tools.record.compiled.layout import Layout
from host_tools.record.program import FOLDER, GuestProgram, program_job
from host_tools.vgpu.build import qemu_plugin
from tests.support.node_cases import Prepared, Tensors, Why, judged

GUESTS = ("v3d42", "v3d71", "mali_g71", "mali_g72", "mali_g52r1", "mali_g31")
BATCH = 40  # cases of a boot
TOGETHER = 20  # of a process of the runner
SECONDS = 3600.0  # for a boot, on a machine that does other things, too


class Ready(Protocol):
    """What is ready to run: a plan with its places, SPIR-V of its kernels, and values of its inputs."""

    @property
    def layout(self) -> Layout: ...
    @property
    def shaders(self) -> list[bytes]: ...
    @property
    def inputs(self) -> Tensors: ...


def in_guest(cases: Sequence[Prepared], gpu: str) -> dict[str, tuple[Why, str]]:
    """What came of cases, by name, on a virtual GPU through its unmodified driver."""
    return {
        ready.case.name: (Why.PLAN, left)
        if isinstance(left, str)
        else judged(ready.case, ready.layout.results(left))
        for ready, left in zip(cases, answers(cases, gpu), strict=True)
    }


def answers(cases: Sequence[Ready], gpu: str) -> list[bytes | str]:
    """The runner's result for each case on a virtual GPU, or what ended it.

    Where the machine ends early, because of a case that its GPU does not model, halves are tried.
    """
    if not cases:
        return []
    try:
        return _booted(cases, gpu)
    except RecordError as error:
        if len(cases) == 1:
            return [str(error)]
        half = len(cases) // 2
        return answers(cases[:half], gpu) + answers(cases[half:], gpu)


def ran(cases: Sequence[Ready], gpu: str, lines: Callable[[Sequence[str]], Iterable[str]]) -> dict[str, bytes]:
    """What the machine leaves of one boot, by name.

    Args:
        lines: of a shell, made of each case's words for the runner.
    """
    root = ready_root("")
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        files, words = [], []
        for at, ready in enumerate(cases):
            for file, data in runner.files(ready.layout, ready.shaders, ready.inputs).items():
                files.append(Path(folder) / f"{file}{at}")
                files[-1].write_bytes(data)
            names = (runner.PLAN, runner.CONSTANTS, runner.TENSORS, f"/out/{runner.RESULT}")
            words.append(" ".join(f"{name}{at}" for name in names))
        job = program_job(root, GuestProgram(runner.for_guest(root), files=files), gpu)
        job = dataclasses.replace(job, command="\n".join([f"cd /{FOLDER}", *lines(words), "true"]))
        return boot(job, root, qemu_plugin(), timeout=SECONDS).files


def _booted(cases: Sequence[Ready], gpu: str) -> list[bytes | str]:
    def lines(words: Sequence[str]) -> Iterator[str]:
        for at in range(0, len(words), TOGETHER):
            yield f"./runner {' '.join(words[at : at + TOGETHER])} || true"
        for at, those in enumerate(words):  # what ended one of these runs ends no other case
            yield f"[ -f /out/{runner.RESULT}{at} ] || ./runner {those} >/out/said{at} 2>&1 || true"

    left = ran(cases, gpu, lines)
    return [
        left.get(f"{runner.RESULT}{at}", left.get(f"said{at}", b"").decode(errors="replace").strip())
        for at in range(len(cases))
    ]
