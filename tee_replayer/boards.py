# SPDX-License-Identifier: BSD-2-Clause
"""Boards and environments that a replayer can be generated for: `baremetal/boards/NAME.toml`.

Memory maps are not here: a port's header has them, and the firmware contains it
(struct gr_board of baremetal/port.h).
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

QEMU_VIRT, OPTEE = "qemu-virt", "optee"  # those that there are complete emulated machines for


@dataclass(frozen=True)
class BoardGpu:
    """The GPU of a real board.

    Attributes:
        profile: name of its profile.
        virtual: the virtual GPU that stands for it in emulation.
        window_bytes: of its registers at the board's address.
        power_model: module of host_tools/runners/power with a model of what switches it; "": it is always on.
    """

    profile: str
    virtual: str
    window_bytes: int
    power_model: str = ""


@dataclass(frozen=True)
class Image:
    """What the board is flashed with.

    Attributes:
        kind: how it is packed: a key of CONTAINERS in host_tools/flash/names.py.
        firmware: pieces that hold the replayer, in the order in which they lie in memory.
        options: what `gramophone flash` may be given for it.
        needed: piece without which the board does not boot -> what it is; those of other partitions are never in
            the image.
        base, bytes: where the firmware must lie, and the room there, in bytes; 0: as the port's header says.
    """

    kind: str
    firmware: tuple[str, ...]
    options: tuple[str, ...] = ()
    needed: dict[str, str] = field(default_factory=dict)
    base: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Optee:
    """Sizes and places that OP-TEE's build takes.

    Attributes:
        carveout_bytes: secure memory for traces, where nothing else is said; a multiple of `carveout_step`.
        firewall_base: register of the firewall that hands the GPU over.
    """

    carveout_bytes: int
    carveout_step: int
    firewall_base: int


@dataclass(frozen=True)
class Board:
    """A board, or an environment on boards.

    Attributes:
        name: as `gramophone generate --platform` takes it.
        title: in words.
        is_silicon: a real board, which the port has not met.
        image: what it is flashed with.
        port: name of its files in baremetal/: PORT.c, and PORT.h, which becomes board.h; None: it has OP-TEE.
        parts: further sources of it there.
        gpu: None: it takes any GPU.
        optee: where the replayer is a part of OP-TEE.
    """

    name: str
    title: str
    is_silicon: bool
    image: Image
    port: str | None = None
    parts: tuple[str, ...] = ()
    gpu: BoardGpu | None = None
    optee: Optee | None = None

    @property
    def notice(self) -> str:
        """Line of the generated files' head; empty for an emulated machine."""
        return " *   port              has run only in emulation, not on silicon\n" if self.is_silicon else ""


def names() -> list[str]:
    """Names of all boards and environments."""
    folder = resources.files("baremetal") / "boards"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


@functools.cache
def load(name: str) -> Board:
    """The description of a board, one of `names()`."""
    data = tomllib.loads((resources.files("baremetal") / "boards" / f"{name}.toml").read_text(encoding="utf-8"))
    return Board(name, **{key: _value(key, value) for key, value in data.items()})


def _value(key: str, value: Any) -> Any:
    if key == "parts":
        return tuple(value)
    if key == "image":
        values: dict[str, Any] = {k: tuple(item) if isinstance(item, list) else item for k, item in value.items()}
        return Image(**values)
    return BoardGpu(**value) if key == "gpu" else Optee(**value) if key == "optee" else value
