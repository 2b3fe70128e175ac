# SPDX-License-Identifier: BSD-2-Clause
"""A new feature is three files, rows of tables, and a line in the core's C files for each hook.

A dummy shows it in a copy of the sources. It is as hard as the hardest real feature: it has state in the replayer,
a section of the trace behind a flag of the header, an action, a field of the report and a slot of the mailbox.
"""

from __future__ import annotations

import difflib
import shutil
import subprocess
from pathlib import Path

import pytest

from tee_replayer import features
from tests.support import dummy_feature
from tests.support.copied_tree import CopiedTree
from tests.support.firmware_samples import GCC
from tests.support.places import CHECKOUT
from tests.support.replayer_samples import library

CORE = "tee_replayer/core"
# As a firmware's Makefile has them, but for link-time optimisation: code of one file, in its final order.
FLAGS = (
    "-std=c11",
    "-Os",
    "-ffreestanding",
    "-march=armv8-a",
    "-mgeneral-regs-only",
    "-mstrict-align",
    "-fno-pic",
)
STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Werror")

# replayer.c and replayer.h without features and with others, each without and with the dummy.
GENERATE = """
from tee_replayer.generator import amalgamate
from tee_replayer.generator.device import Device
from tests.support.replayer_samples import GPU, KEY

device = Device("a device", GPU.profile_id, 0, KEY)
OTHERS = ("ENCRYPTION", "STEPS", "NETWORKS 2", "SCHEDULE 2")
for name, on in (("plain", ()), ("others", OTHERS), ("dummy", ("DUMMY",)), ("all", (*OTHERS, "DUMMY"))):
    defines = "".join(f"#define GRAMOPHONE_{macro}\\n" for macro in on)
    (folder / name).mkdir()
    text = amalgamate.header("", device.declaration(), defines)
    (folder / name / "replayer.h").write_text(text)
    text = amalgamate.source(GPU, "", device.definition(), defines=defines)
    (folder / name / "replayer.c").write_text(text)
"""

RUN = """
import cffi
from host_tools.runners import libraries
from host_tools.support.cache import cache_dir
from tee_replayer.generator import hostlib
from tee_replayer.generator.status import ReplayError
from tests.support import replayer_samples as s
from trace_format import assembly
from trace_format import layout
from trace_format.actions import Op, action
from trace_format.layout import Part
from trace_format.schema import SectionType

FLAG = 32

def built(section, flags, *more):
    sample = s.trace(*s.PROLOGUE, *more, *s.REPLAY)
    head = [Part(SectionType.MANIFEST, sample.manifest_bytes()), Part(SectionType.SLOTS, sample.slot_bytes())]
    head += [Part(SectionType.DUMMY, section)] if section else []
    body = [Part(SectionType.ACTIONS, sample.actions.tobytes()), Part(SectionType.IMAGE, sample.image)]
    return s.signed(assembly.assemble(head, body, 4096, flags))

def replayer(*macros):
    file = hostlib.build(s.GPU, libraries.source(), cache_dir("replayer"), (), macros=macros)
    gpu = s.Registers()
    kept.append((gpu, bytearray(s.CARVEOUT_BYTES)))
    return file, hostlib.HostReplayer(file, s.GPU, gpu.c_interface, kept[-1][1], s.CARVEOUT_PHYS)

def refusal(on, data):
    try:
        on.load(data, s.KEY)
    except ReplayError as error:
        return error.report.name
    return "taken"

kept = []
file, with_dummy = replayer("GRAMOPHONE_DUMMY")
_, without = replayer()
ffi = cffi.FFI()
ffi.cdef("uint64_t gr_dummy_sum(const void *);")  # a struct gr_host begins with the replayer
state = lambda: ffi.dlopen(str(file)).gr_dummy_sum(ffi.cast("void *", with_dummy._host))

number = (1 << 40) + 1000
trace = built(number.to_bytes(8, "little"), FLAG, action(Op.DUMMY, number=7), action(Op.DUMMY, number=20))
assert (with_dummy.load(trace, s.KEY).dummy, state()) == (1000, number)
assert (with_dummy.run().dummy, state()) == (1027, number + 27)
assert (with_dummy.run().dummy, state()) == (1054, number + 54)
with_dummy.unload()
assert state() == 0

assert refusal(without, trace) == "HEADER"
assert refusal(without, built(b"", 0, action(Op.DUMMY, number=7))) == "ACTION"
assert refusal(without, built(b"", 0)) == "taken"
assert refusal(with_dummy, built(bytes(16), FLAG)) == "SECTIONS"
assert refusal(with_dummy, built(b"", 0, action(Op.DUMMY, number=7))) == "taken"
assert with_dummy.run().dummy == 7
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> CopiedTree:
    """The sources with the dummy, and the C headers that follow."""
    folder = tmp_path_factory.mktemp("with")
    found = CopiedTree.following(dummy_feature.FEATURE, folder / "tree")
    found.run("from trace_format.emit.__main__ import main as emit\nassert emit([]) == 0\n", folder)
    return found


def test_every_feature_has_its_files() -> None:
    for row in features.FEATURES:
        folder = features.HERE / row.name
        assert all((folder / name).is_file() for name in (*row.sources, *filter(None, [row.header])))
        hooks = [path for path in features.headers() if path.parent == folder]
        assert {f"{row.name}.h", f"{row.name}_api.h"} & {path.name for path in hooks}


def test_sources_are_those_of_the_features() -> None:
    plain, steps = features.sources(()), features.sources({"GRAMOPHONE_STEPS"})
    assert {path.parent for path in plain} == {features.CORE}
    assert {path.name for path in set(steps) - set(plain)} == {"steps.c"}
    assert {path.name for path in set(plain) - set(steps)} == {"attempts.c"}


def test_the_core_has_a_line_for_each_hook(tree: CopiedTree) -> None:
    assert len(dummy_feature.FILES) == 3
    inserted = []
    for path in sorted((tree.root / CORE).glob("*.c")):
        before = (CHECKOUT / CORE / path.name).read_text(encoding="utf-8").splitlines()
        changes = [
            line
            for line in difflib.ndiff(before, path.read_text(encoding="utf-8").splitlines())
            if not line.startswith("  ")
        ]
        inserted += [(path.name, line) for line in changes]
    assert [(file, line[:2]) for file, line in inserted] == [("load.c", "+ "), ("run.c", "+ ")]
    for _, line in inserted:
        assert "_dummy(" in line
        assert not line[2:].lstrip().startswith(("#", "if"))


def compiled(replayer: Path) -> list[str]:
    """Code and data by section, with the names in it and what is still to be linked, as objdump prints them."""
    made = replayer / "replayer.o"
    command = [GCC, *FLAGS, *STRICT, "-c", "-o", str(made), str(replayer / "replayer.c")]
    subprocess.run(command, check=True)
    dump = [GCC.replace("gcc", "objdump"), "-d", "-r", "-s", made.name]
    found = subprocess.run(dump, cwd=replayer, capture_output=True, text=True, check=True).stdout.splitlines()
    assert any("<gr_run>" in line for line in found)
    return found


@pytest.mark.skipif(shutil.which(GCC) is None, reason=f"{GCC} is missing: apt-get install gcc-aarch64-linux-gnu")
def test_an_absent_feature_costs_nothing(tree: CopiedTree, tmp_path: Path) -> None:
    for name, where in (("before", CopiedTree(CHECKOUT)), ("after", tree)):
        (tmp_path / name).mkdir()
        where.run(GENERATE, tmp_path / name)
    for absent, present in (("plain", "dummy"), ("others", "all")):
        before = compiled(tmp_path / "before" / absent)
        assert compiled(tmp_path / "after" / absent) == before
        assert compiled(tmp_path / "after" / present) != before


def test_a_trace_with_the_section_and_the_action_runs(tree: CopiedTree, tmp_path: Path) -> None:
    """State and report have the section's number and what the action adds; other replayers refuse the trace."""
    library()  # skips where the crypto libraries' sources cannot be had
    tree.run(RUN, tmp_path)


def test_the_mailbox_has_its_slot(tree: CopiedTree) -> None:
    text = (tree.root / "trace_format" / "generated" / "gramophone_mailbox.h").read_text(encoding="utf-8")
    assert "#define MAILBOX_DUMMY 0xffffff20u\n" in text
