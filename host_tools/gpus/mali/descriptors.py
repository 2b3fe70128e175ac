# SPDX-License-Identifier: BSD-2-Clause
"""Layouts of a Mali's job descriptors (Bifrost v6), field by field.

Source: Mesa 22.3.6 src/panfrost/lib/genxml/v6.xml (Job Header, Compute Job, Invocation, Draw, Renderer State,
Shader, Renderer Properties, Compute Preload, Local Storage, Uniform Buffer, payloads of Write Value jobs and of
Cache Flush jobs).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from host_tools.gpus.mali.job_manager import JobType


@dataclass(frozen=True)
class Field:
    """Bits of a descriptor.

    Attributes:
        low: the lowest, counted from the descriptor's start.
        width: how many.
        minus_one: the descriptor holds one less.
        shift: the descriptor holds the value shifted right by so many bits.
        address: it is a GPU address.
        names: of its values.
    """

    low: int
    width: int = 1
    minus_one: bool = False
    shift: int = 0
    address: bool = False
    names: Mapping[int, str] | None = None

    def of(self, data: bytes) -> int | str:
        """Its value in a descriptor's bytes: a number, an address in hexadecimal, or a name."""
        value = (int.from_bytes(data, "little") >> self.low & (1 << self.width) - 1) << self.shift
        if self.address:
            return f"{value:#x}"
        if self.names is not None:
            return self.names.get(value, str(value))
        return value + self.minus_one


def _at(word: int, bit: int = 0, width: int = 1, **more: bool | int | Mapping[int, str]) -> Field:
    return Field(32 * word + bit, width, **more)  # type: ignore[arg-type]


def _pointer(word: int) -> Field:
    return Field(32 * word, 64, address=True)


HEADER = {
    "exception status": _at(0, 0, 32),
    "first incomplete task": _at(1, 0, 32),
    "fault pointer": _pointer(2),
    "is 64b": _at(4, 0),
    "type": _at(4, 1, 7, names={int(kind): kind.name.lower() for kind in JobType}),
    "barrier": _at(4, 8),
    "invalidate cache": _at(4, 9),
    "suppress prefetch": _at(4, 11),
    "enable texture mapper": _at(4, 12),
    "relax dependency 1": _at(4, 14),
    "relax dependency 2": _at(4, 15),
    "index": _at(4, 16, 16),
    "dependency 1": _at(5, 0, 16),
    "dependency 2": _at(5, 16, 16),
    "next": _pointer(6),
}
INVOCATION = {
    "invocations": _at(0, 0, 32),
    "size y shift": _at(1, 0, 5),
    "size z shift": _at(1, 5, 5),
    "workgroups x shift": _at(1, 10, 6),
    "workgroups y shift": _at(1, 16, 6),
    "workgroups z shift": _at(1, 22, 6),
    "thread group split": _at(1, 28, 4),
}
PARAMETERS = {"job task split": _at(0, 26, 4)}
DRAW = {
    "four components per vertex": _at(0, 0),
    "draw descriptor is 64b": _at(0, 1),
    "occlusion query": _at(0, 3, 2),
    "front face ccw": _at(0, 5),
    "cull front face": _at(0, 6),
    "cull back face": _at(0, 7),
    "flat shading vertex": _at(0, 8),
    "exclude filtered perf counters": _at(0, 9),
    "primitive barrier": _at(0, 10),
    "clean fragment write": _at(0, 11),
    "instance size": _at(0, 16, 8),
    "instance primitive size": _at(0, 24, 8),
    "offset start": _at(1, 0, 32),
    "primitive index base": _at(2, 0, 32),
    **{
        name: _pointer(4 + 2 * place)
        for place, name in enumerate(
            (
                "position",
                "uniform buffers",
                "textures",
                "samplers",
                "push uniforms",
                "state",
                "attribute buffers",
                "attributes",
                "varying buffers",
                "varyings",
                "viewport",
                "occlusion",
                "thread storage",
            )
        )
    },
}
STATE = {
    "shader": _pointer(0),
    "sampler count": _at(2, 0, 16),
    "texture count": _at(2, 16, 16),
    "attribute count": _at(3, 0, 16),
    "varying count": _at(3, 16, 16),
    "uniform buffer count": _at(4, 0, 8),
    "depth source": _at(4, 8, 2),
    "shader contains barrier": _at(4, 11),
    "shader modifies coverage": _at(4, 16),
    "preload pc": _at(12, 6),
    "preload local invocation xy": _at(12, 7),
    "preload local invocation z": _at(12, 8),
    "preload work group x": _at(12, 9),
    "preload work group y": _at(12, 10),
    "preload work group z": _at(12, 11),
    "preload global invocation x": _at(12, 12),
    "preload global invocation y": _at(12, 13),
    "preload global invocation z": _at(12, 14),
    "uniform count": _at(12, 15, 7),
    "secondary preload": _at(13, 0, 32),
    "secondary shader": _pointer(14),
}
STORAGE = {
    "tls size": _at(0, 0, 5),
    "tls initial stack pointer offset": _at(0, 5, 27),
    "wls instances": _at(1, 0, 5),
    "wls size base": _at(1, 5, 2),
    "wls size scale": _at(1, 8, 5),
    "tls base pointer": _pointer(2),
    "wls base pointer": _pointer(4),
}
UNIFORM_BUFFER = {
    "entries": _at(0, 0, 12, minus_one=True),
    "pointer": Field(12, 52, shift=4, address=True),
}
WRITE_VALUE = {
    "address": _pointer(0),
    "type": _at(
        2,
        0,
        32,
        names={
            1: "cycle counter",
            2: "system timestamp",
            3: "zero",
            4: "immediate 8",
            5: "immediate 16",
            6: "immediate 32",
            7: "immediate 64",
        },
    ),
    "immediate value": Field(128, 64),
}
CACHE_FLUSH = {
    "clean shader core ls": _at(0, 0),
    "invalidate shader core ls": _at(0, 1),
    "invalidate shader core other": _at(0, 2),
    "job manager clean": _at(0, 16),
    "job manager invalidate": _at(0, 17),
    "tiler clean": _at(0, 24),
    "tiler invalidate": _at(0, 25),
    "l2 clean": _at(1, 0),
    "l2 invalidate": _at(1, 1),
}


def fields(layout: Mapping[str, Field], data: bytes) -> dict[str, int | str]:
    """All fields of a descriptor."""
    return {name: place.of(data) for name, place in layout.items()}


def workgroups(data: bytes) -> dict[str, int | str]:
    """What an Invocation's packed numbers are: six values, each stored less one, from a bit to the next one's."""
    packed = fields(INVOCATION, data)
    word, shifts = int(packed["invocations"]), [0, *(int(packed[name]) for name in list(INVOCATION)[1:6]), 32]
    values = []
    for low, high in itertools.pairwise(shifts):
        values.append(str((word >> low & (1 << max(high - low, 0)) - 1) + 1))
    return {"workgroup size": " x ".join(values[:3]), "workgroups": " x ".join(values[3:])}
