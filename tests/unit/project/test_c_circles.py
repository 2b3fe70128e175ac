# SPDX-License-Identifier: BSD-2-Clause
"""C files of one room do not need those of another one that needs them; nor do the core's files one another.

A room is a folder. A file needs what it includes, and who defines the functions that it names. SEAMS are the
headers by which a room says what others define for it: docs/DESIGN.md, Replayer.
"""

from __future__ import annotations

import pytest

from tee_replayer import features
from tests.support.c_graph import circle, includes, links
from tests.support.places import CHECKOUT
from trace_format.emit import GENERATED

CORE = "tee_replayer/core"
FEATURES = "tee_replayer/features"
# Headers by which the core says what features do for it: they lie with the features, and are the core's.
HOOKS = {
    *(f"{FEATURES}/{row.name}/{row.name}{api}.h" for row in features.FEATURES for api in ("", "_api")),
    *(f"{FEATURES}/{name}.h" for name in ("evidence/tell", "encryption/cipher", "trust/algorithms")),
}
SEAMS = {f"{CORE}/crypto.h", f"{CORE}/driver.h", f"{FEATURES}/evidence/log_crypto.h"}
TREES = {
    "replayer": ("tee_replayer/core", "tee_replayer/drivers", FEATURES, "tee_replayer/crypto"),
    "virtual GPUs": ("host_tools/vgpu", "host_tools/gpus"),
}
ROOMS = {
    "replayer": {
        *("tee_replayer/core", "tee_replayer/drivers", "tee_replayer/crypto"),
        *(
            f"{FEATURES}/{row.name}"
            for row in features.FEATURES
            if row.sources or row.name in ("store", "evidence")
        ),
    },
    "virtual GPUs": {
        *("host_tools/vgpu", "host_tools/vgpu/qemu"),
        *(f"host_tools/gpus/v3d/vgpu{folder}" for folder in ("", "/device", "/qpu")),
        *(f"host_tools/gpus/mali/vgpu{folder}" for folder in ("", "/device", "/bifrost", "/valhall")),
    },
}
# Made for one target, or of a library.
ELSEWHERE = {"gr_target.h", "s2n-bignum.h", "ec/ec_p256_m31.c"} | {path.name for path in GENERATED.glob("*.h")}
# A file, what is added to it, and a part of the circle that this makes.
PLANTED = {
    "qpu includes the device": (
        "host_tools/gpus/v3d/vgpu/qpu/v3d_csd.c",
        '#include "v3d_device.h"\n',
        "vgpu/qpu/v3d_csd.c -> host_tools/gpus/v3d/vgpu/device/v3d_device.h (includes)",
    ),
    "qpu calls the device": (
        "host_tools/gpus/v3d/vgpu/qpu/v3d_qpu_memory.c",
        "static void f(void *mmu)\n{\n    v3d_mmu_free(mmu);\n}\n",
        "vgpu/qpu/v3d_qpu_memory.c -> host_tools/gpus/v3d/vgpu/device/v3d_mmu.c (v3d_mmu_free)",
    ),
    "bifrost includes the device": (
        "host_tools/gpus/mali/vgpu/bifrost/mali_bifrost.h",
        '#include "mali_device.h"\n',
        "bifrost/mali_bifrost.h -> host_tools/gpus/mali/vgpu/device/mali_device.h (includes)",
    ),
    "bifrost calls the device": (
        "host_tools/gpus/mali/vgpu/bifrost/mali_bifrost_run.c",
        "static void f(void *dev)\n{\n    mali_flushed(dev);\n}\n",
        "bifrost/mali_bifrost_run.c -> host_tools/gpus/mali/vgpu/device/mali_device.c (mali_flushed)",
    ),
    "what all share includes a family": (
        "host_tools/vgpu/vgpu.c",
        '#include "mali_memory.h"\n',
        "host_tools/vgpu/vgpu.c -> host_tools/gpus/mali/vgpu/mali_memory.h (includes)",
    ),
    "the core calls an operator": (
        f"{CORE}/run.c",
        "static float f(uint32_t bits)\n{\n    return gr_exp(bits);\n}\n",
        f"{CORE}/run.c -> tee_replayer/features/operators/numbers.c (gr_exp)",
    ),
    "the core calls the log beside the seam": (
        f"{CORE}/load.c",
        "static void f(struct gr_log *log)\n{\n    gr_log_close(log);\n}\n",
        f"{CORE}/load.c -> tee_replayer/features/evidence/log.c (gr_log_close)",
    ),
}
PLANTED_IN_CORE = {
    "stream.c": ("gr_unload(0);", f"{CORE}/stream.c -> {CORE}/load.c (gr_unload)"),
    "memory.c": ("gr_stream_ready(0);", f"{CORE}/memory.c -> {CORE}/stream.c (gr_stream_ready)"),
    "check.c": ("gr_leave(0, 0);", f"{CORE}/check.c -> {CORE}/run.c (gr_leave)"),
}


def sources(*folders: str) -> dict[str, str]:
    """C files in folders, with those below them, by path."""
    return {
        str(path.relative_to(CHECKOUT)): path.read_text(encoding="utf-8")
        for folder in folders
        for path in sorted((CHECKOUT / folder).rglob("*.[ch]"))
    }


def room(path: str) -> str:
    """The folder that a file is in, or belongs to."""
    return CORE if path in HOOKS else path.rpartition("/")[0]


@pytest.mark.parametrize("tree", TREES)
def test_rooms_do_not_need_each_other(tree: str) -> None:
    files = sources(*TREES[tree])
    assert {room(path) for path in files} == ROOMS[tree]
    assert circle(links(files, SEAMS | HOOKS), room) == []


def test_files_of_the_core_do_not_need_each_other() -> None:
    assert circle(links(sources(CORE))) == []


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_circle_is_found(name: str) -> None:
    path, text, step = PLANTED[name]
    files = sources(*TREES["replayer" if path.startswith("tee_replayer") else "virtual GPUs"])
    files[path] += text
    assert step in "\n".join(circle(links(files, SEAMS | HOOKS), room))


@pytest.mark.parametrize("name", PLANTED_IN_CORE)
def test_a_planted_circle_of_the_core_is_found(name: str) -> None:
    call, step = PLANTED_IN_CORE[name]
    files = sources(CORE)
    files[f"{CORE}/{name}"] += f"static void f(void)\n{{\n    {call}\n}}\n"
    assert step in circle(links(files))


def test_each_seam_is_one() -> None:
    """Without it there is a circle."""
    files = sources(*TREES["replayer"])
    for seam in SEAMS:
        assert circle(links(files, (SEAMS | HOOKS) - {seam}), room) != [], seam


@pytest.mark.parametrize("tree", TREES)
def test_included_files_are_known(tree: str) -> None:
    """One that is not found would be needed by nobody."""
    files = sources(*TREES[tree], CORE, FEATURES)
    known = {path.rpartition("/")[2] for path in files} | ELSEWHERE
    assert {name.removeprefix("../") for text in files.values() for name in includes(text)} <= known | {
        path.removeprefix("tee_replayer/") for path in HOOKS
    }


def test_who_needs_whom() -> None:
    files = {
        "top/a.c": '#include "b.h"\nint a(void)\n{\n    return b(1) + only(); /* d */\n}\n',
        "low/b.h": (
            "__attribute__((format(printf, 1, 2))) int b(int x,\n    void (*visit)(void *ctx, int y));\n"
            "static inline int only(void)\n{\n    return d;\n}\n"
        ),
        "low/b.c": 'int b(int x,\n    void (*visit)(void *ctx, int y))\n{\n    return "a";\n}\n',
        "low/d.c": "static int b(int x)\n{\n    return 0;\n}\nint d(void)\n{\n    return 0;\n}\n",
    }
    assert [(link.source, link.target, link.why) for link in links(files)] == [
        ("top/a.c", "low/b.h", "includes"),
        ("top/a.c", "low/b.c", "b"),
    ]
    assert [link.why for link in links(files, {"low/b.h"})] == ["includes"]
