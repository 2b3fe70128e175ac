# SPDX-License-Identifier: BSD-2-Clause
"""The tasks of a project: for each network and GPU record, build, sign, report, sbom and replay; for each target
generate, make, sbom and flash.

Names in command lines are those in the folder that a task is run in: no result depends on where the project lies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from host_tools.commands.build import build_command
from host_tools.commands.flash import flash_command
from host_tools.commands.generate import generate_command
from host_tools.commands.replay import replay_command
from host_tools.commands.report import report_command
from host_tools.commands.sign import sign
from host_tools.extras.project.commands.make_device import TargetDevice
from host_tools.extras.project.commands.make_file import RECORDING, SOURCES, Network, Project, Target
from host_tools.extras.project.commands.make_options import Options, Words, checked
from host_tools.extras.project.tasks.task import Task
from host_tools.machine.root import packages_key
from host_tools.machine.snapshot import timestamp
from host_tools.runners.firmware import compiler_version
from host_tools.support.extra import command

SECRET = frozenset(
    ("--fleet-key", "--ta-signing-key", "--store", "--decrypt-with")
)  # options that read private keys
COMPILED_IN = "--fleet-key"  # and this one writes it into the firmware


def tasks_of(project: Project) -> list[Task]:
    """All tasks, each after those that it uses.

    Raises:
        ProjectError: a command does not take what the project file says; nothing has been run.
    """
    graph = _Graph(project)
    for network in project.networks.values():
        for gpu in network.gpus:
            graph.trace(network, gpu)
    for target in project.targets.values():
        graph.target(target)
    return list(graph.tasks.values())


def title_of(network: str, gpu: str) -> str:
    """What a trace is called: its tasks, and its folder below `out`."""
    return f"{network}.{gpu}"


class _Graph:
    """The tasks so far."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.tasks: dict[str, Task] = {}
        self.secret: set[str] = set()  # tasks whose output has a private key in it

    def add(
        self,
        name: str,
        command: click.Command,
        verb: tuple[str, ...],
        words: Words,
        *,
        options: tuple[tuple[str, Options], ...] = (),
        uses: dict[str, str] | None = None,
        here: bool = False,
        **more: Any,
    ) -> str:
        """Add a task; `options`: with the part of the project file that they are of."""
        for _, row in options:
            row.add_to(words)
        where = " and ".join(part for part, row in options if row.rows) or name
        checked(command, words.words, where, str(self.project.file))
        given = {option for _, row in options for option, _ in row.rows}
        here = here or not SECRET.isdisjoint(given)
        return self.keep(Task(name, (*verb, *words.words), words.files, uses or {}, here=here, **more), given)

    def keep(self, task: Task, options: Collection[str] = ()) -> str:
        """Add a task, which stays here if it reads what has a private key in it."""
        reads = not self.secret.isdisjoint(task.uses.values())
        if reads or COMPILED_IN in options:
            self.secret.add(task.name)
        self.tasks[task.name] = replace(task, here=task.here or reads)
        return task.name

    def trace(self, network: Network, gpu: str) -> None:
        """The tasks of a network on a GPU."""
        title, part = title_of(network.name, gpu), f"networks.{network.name}"
        file = network.name
        words, uses = Words(), {}
        if network.source == RECORDING:
            raw = words.file(network.paths[0])
        else:
            raw = f"{file}.raw.gtr"
            uses[raw] = self.recording(network, network.record_on or gpu)
        words.words += [raw, "-o", f"{file}.gtr", "--gpu", gpu, "--name", network.name]
        built = self.add(
            f"{title}/build",
            build_command,
            ("build",),
            words,
            options=((f"{part}.build", network.options["build"]),),
            uses=uses,
            output=f"{file}.gtr",
            place=f"{title}/{file}.gtr",
        )
        key = self.project.keys[network.key]
        signed = self.add(
            f"{title}/sign",
            sign,
            ("sign",),
            Words([f"{file}.gtr", "-o", f"{file}.sgtr"]),
            options=((f"keys.{network.key}", key.options), (f"{part}.sign", network.options["sign"])),
            uses={f"{file}.gtr": built},
            output=f"{file}.sgtr",
            place=f"{title}/{file}.sgtr",
            here=True,
        )
        from_signed = {f"{file}.sgtr": signed}
        words = Words([f"{file}.sgtr"])
        words.words += ["-o", "report.html", "--key", words.file(self.project.trusted(network.key))]
        self.add(
            f"{title}/report",
            report_command,
            ("report",),
            words,
            options=((f"{part}.report", network.options["report"]),),
            uses=from_signed,
            output="report.html",
            place=f"{title}/report.html",
        )
        self.sbom(title, f"{file}.sgtr", from_signed, f"{file}.cdx.json")
        if network.has_expected:
            words = Words([f"{file}.sgtr"])
            words.words += ["--key", words.file(self.project.trusted(network.key))]
            self.add(
                f"{title}/replay",
                replay_command,
                ("replay",),
                words,
                options=((f"{part}.replay", network.options["replay"]),),
                uses=from_signed,
            )

    def recording(self, network: Network, gpu: str) -> str:
        """The task that records a network on a GPU, which several traces may use."""
        command, verb, _ = SOURCES[network.source]
        name = f"{title_of(network.name, gpu)}/record"
        if name in self.tasks:
            return name
        options, words, output = network.options["record"], Words(), f"{network.name}.raw.gtr"
        words.words += [words.file(path) for path in network.paths]
        words.words += ["-o", output, "--name", network.name]
        stamp: Callable[[bool], str] | None = None
        if verb[0] == "record":
            words.words += ["--gpu", gpu]
            stamp = partial(_machine, options.value("--snapshot") or "")
        part = f"networks.{network.name}.record"
        return self.add(name, command, verb, words, options=((part, options),), output=output, stamp=stamp)

    def sbom(self, title: str, what: str, uses: dict[str, str], output: str) -> None:
        """The bill of materials of a trace or a folder, if the extra publish is there."""
        sbom = command("publish sbom")
        if sbom is None:
            return
        words = Words([what, "-o", output])
        self.add(
            f"{title}/sbom", sbom, ("publish", "sbom"), words, uses=uses, output=output, place=f"{title}/{output}"
        )

    def target(self, target: Target) -> None:
        """The tasks of a device."""
        project, title, part = self.project, target.name, f"targets.{target.name}"
        device = target.device
        folder = self.add(
            f"{title}/generate",
            generate_command,
            ("generate",),
            _of_device(device) if device else _of_options(project, target),
            options=((f"{part}.generate", target.generate),),
            output="firmware",
            place="" if target.bare else f"{title}/firmware",
            here=bool(device and device.says.fleet_key),
        )
        if device and device.says.fleet_key:
            self.secret.add(folder)
        if target.bare:
            make = Task(
                f"{title}/make",
                ("make", "-C", "firmware"),
                uses={"firmware": folder},
                output="firmware",
                changed="firmware",
                place=f"{title}/firmware",
                stamp=_compiler,
            )
            folder = self.keep(make)
        self.sbom(title, "firmware", {"firmware": folder}, "firmware.cdx.json")
        if target.image:
            words = Words(["firmware", "-o", f"image/{title}.img"])  # a card's block map is beside it
            uses = {"firmware": folder}
            for network in target.networks:
                uses[f"{network}.sgtr"] = f"{title_of(network, target.gpu)}/sign"
                words.words += ["--trace", f"{network}.sgtr"]
            self.add(
                f"{title}/flash",
                flash_command,
                ("flash",),
                words,
                options=((f"{part}.flash", target.flash),),
                uses=uses,
                output="image",
                into=True,
                place=f"{title}/image",
            )


def _of_device(device: TargetDevice) -> Words:
    """The command line for a device file."""
    flags = ["--untested"] if device.untested else []
    return Words([device.path.name, "-o", "firmware", *flags], dict(device.files))


def _of_options(project: Project, target: Target) -> Words:
    """The command line for a target without a device file; delete it with `generate_options`."""
    words = Words()
    board = words.file(target.board) if isinstance(target.board, Path) else target.board
    words.words += ["--board" if isinstance(target.board, Path) else "--platform", board]
    words.words += ["--gpu", target.gpu, "-o", "firmware"]
    if "--key" not in dict(target.generate.rows):
        words.words += ["--key", words.file(project.trusted(next(iter(project.keys))))]
    return words


def _machine(snapshot: str, prepare: bool) -> str:
    """Which packages the machine has that records; it is prepared first if it must be."""
    return packages_key(timestamp(snapshot) if snapshot else "", make_ready=prepare)


def _compiler(prepare: bool) -> str:
    """Its version; it is never prepared."""
    return compiler_version()
