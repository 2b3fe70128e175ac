# SPDX-License-Identifier: BSD-2-Clause
"""A Mali's descriptors as C's bit fields, written down by hand from Mesa 22.3.6 src/panfrost/lib/genxml/v6.xml.

The project's own description is a table of places (host_tools/gpus/mali/descriptors.toml). Here no field has a
place: each follows the one before it. `_` are bits that Mesa does not name, or that nothing here is about.
"""

from __future__ import annotations

import ctypes

U32, U64 = ctypes.c_uint32, ctypes.c_uint64


def _shape(name: str, *fields: tuple[str, int]) -> type[ctypes.LittleEndianStructure]:
    """A structure of fields (name, bits), without padding."""
    unnamed = 0
    rows = []
    for field, bits in fields:
        if field == "_":
            unnamed += 1
            field = f"_{unnamed}"
        rows.append((field, U64, bits) if bits > 32 else (field, U32, bits))
    return type(name, (ctypes.LittleEndianStructure,), {"_pack_": 1, "_layout_": "ms", "_fields_": rows})


def _flags(*names: str) -> list[tuple[str, int]]:
    return [(name, 1) for name in names]


def _pointers(*names: str) -> list[tuple[str, int]]:
    return [(name, 64) for name in names]


SHAPES = {
    "job header": _shape(
        "JobHeader",
        ("exception status", 32),
        ("first incomplete task", 32),
        ("fault pointer", 64),
        ("is 64b", 1),
        ("type", 7),
        *_flags("barrier", "invalidate cache", "_", "suppress prefetch", "enable texture mapper", "_"),
        *_flags("relax dependency 1", "relax dependency 2"),
        ("index", 16),
        ("dependency 1", 16),
        ("dependency 2", 16),
        ("next", 64),
    ),
    "invocation": _shape(
        "Invocation",
        ("invocations", 32),
        ("size y shift", 5),
        ("size z shift", 5),
        ("workgroups x shift", 6),
        ("workgroups y shift", 6),
        ("workgroups z shift", 6),
        ("thread group split", 4),
    ),
    "draw": _shape(
        "Draw",
        *_flags("four components per vertex", "draw descriptor is 64b", "_"),
        ("occlusion query", 2),
        *_flags("front face ccw", "cull front face", "cull back face", "flat shading vertex"),
        *_flags("exclude filtered perf counters", "primitive barrier", "clean fragment write"),
        ("_", 4),
        ("instance size", 8),
        ("instance primitive size", 8),
        ("offset start", 32),
        ("primitive index base", 32),
        ("_", 32),
        *_pointers("position", "uniform buffers", "textures", "samplers", "push uniforms", "state"),
        *_pointers("attribute buffers", "attributes", "varying buffers", "varyings", "viewport", "occlusion"),
        *_pointers("thread storage", "_"),
    ),
    "renderer state": _shape(
        "RendererState",
        ("shader", 64),
        ("sampler count", 16),
        ("texture count", 16),
        ("attribute count", 16),
        ("varying count", 16),
        ("uniform buffer count", 8),
        ("depth source", 2),
        *_flags("_", "shader contains barrier"),
        ("_", 4),
        ("shader modifies coverage", 1),
        ("_", 15),
        *[("_", 32)] * 7,  # depth units, factor and clamp; multisample; stencil mask, front, back
        ("_", 6),
        *_flags("preload pc", "preload local invocation xy", "preload local invocation z"),
        *_flags("preload work group x", "preload work group y", "preload work group z"),
        *_flags("preload global invocation x", "preload global invocation y", "preload global invocation z"),
        ("uniform count", 7),
        ("_", 10),
        ("secondary preload", 32),
        ("secondary shader", 64),
    ),
    "local storage": _shape(
        "LocalStorage",
        ("tls size", 5),
        ("tls initial stack pointer offset", 27),
        ("wls instances", 5),
        ("wls size base", 2),
        ("_", 1),
        ("wls size scale", 5),
        ("_", 19),
        *_pointers("tls base pointer", "wls base pointer", "_"),
    ),
    "uniform buffer": _shape("UniformBuffer", ("entries", 12), ("pointer low", 20), ("pointer high", 32)),
    "write value": _shape("WriteValue", ("address", 64), ("type", 32), ("_", 32), ("immediate value", 64)),
    "parameters": _shape("Parameters", ("_", 26), ("job task split", 4), ("_", 2), *[("_", 32)] * 5),
    "cache flush": _shape(
        "CacheFlush",
        *_flags("clean shader core ls", "invalidate shader core ls", "invalidate shader core other"),
        ("_", 13),
        *_flags("job manager clean", "job manager invalidate"),
        ("_", 6),
        *_flags("tiler clean", "tiler invalidate"),
        ("_", 6),
        *_flags("l2 clean", "l2 invalidate"),
        ("_", 30),
    ),
}


def raw(descriptor: str, data: bytes) -> dict[str, int]:
    """The bits of each named field."""
    shape = SHAPES[descriptor].from_buffer_copy(data)
    names = [row[0] for row in SHAPES[descriptor]._fields_]
    return {name: getattr(shape, name) for name in names if not name.startswith("_")}
