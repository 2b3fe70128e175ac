# SPDX-License-Identifier: BSD-2-Clause
"""The archive for a board: the generated replayer with another port, signed networks with outputs, a script."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from host_tools.demo import RAW
from host_tools.flash.containers import pack_archive
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.runners import libraries, vgpu
from host_tools.support.tensors import npy, without_value
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tee_replayer.generator import generate as generator
from tee_replayer.generator.linux_folder import PLATFORM
from tee_replayer.generator.options import Options
from tee_replayer.generator.platforms import platform_of
from trace_format.errors import GramophoneError, listed
from trace_format.files import read_file
from trace_format.schema import SlotKind
from trace_format.trace import Trace

GPU = "v3d42"
HERE = Path(__file__).resolve().parent
PORT, NETWORKS = HERE / "port", HERE / "networks"
SCRIPT, LIST = "try-gpu.sh", "networks.txt"
UNUSED = ("uio.c", "take.c", "carveout.dtso", "70-gramophone.rules", "README.md")  # of the platform's own port
OBJECTS = "devmem.o power.o pinned.o clock.o sysfs.o"
TOP = "try-gpu"  # folder in the archive
WORD = re.compile(r"[A-Za-z0-9_.-]+")  # of names that become words of the script


class PackError(GramophoneError):
    """A network that the archive cannot take."""


@dataclass(frozen=True)
class Packed:
    """The archive, and what is in it: name of each network -> its jobs."""

    data: bytes
    networks: dict[str, int]


def pack(more: Sequence[Path] = ()) -> Packed:
    """The archive.

    The networks are signed with a key that only this archive has.

    Args:
        more: further built traces for the board's GPU.

    Raises:
        PackError: a trace for another GPU, with an input that has no value, or with a name of another network's.
        GramophoneError: a trace is damaged, or the sources cannot be generated.
    """
    signer = FileSigner(generate(Algorithm.ES256))
    traces = {"lenet": _lenet(), **{path.stem: Trace.read(path) for path in sorted(NETWORKS.glob("*.gtr"))}}
    for path in more:
        traces |= {_name(path, traces): _checked(path)}
    files = _sources(signer)
    lines = []
    for name, trace in traces.items():
        signed = sign_trace(trace.build(), signer)
        files[f"{name}.sgtr"] = signed
        result = vgpu.replay(vgpu.REQUEST(Delivery(signed), signer.public))
        if not result.ok:
            raise PackError(f"{name}: expected a replay on the virtual GPU, found: {result.error}")
        files |= {f"expected/{name}.{slot}.npy": npy(array) for slot, array in result.outputs.items()}
        lines.append(" ".join([f"{name}.sgtr", *result.outputs]) + "\n")
    files[LIST] = "".join(lines).encode()
    files |= {path.name: read_file(path) for path in sorted(PORT.iterdir()) if path.is_file()}
    data = pack_archive({f"{TOP}/{name}": data for name, data in files.items()})
    return Packed(data, {name: trace.jobs for name, trace in traces.items()})


def _lenet() -> Trace:
    data = read_file(RAW)
    return Trace.parse(build(Trace.parse(data), source=data, skip=KEEP_INPUTS).build())


def _name(path: Path, known: dict[str, Trace]) -> str:
    name = path.stem
    if not WORD.fullmatch(name) or name in known:
        raise PackError(
            f"{path}: name of the file: expected letters, digits, '.', '_' and '-', none of {listed(known)}"
        )
    return name


def _checked(path: Path) -> Trace:
    trace = Trace.read(path)
    if trace.gpu != GPU:
        raise PackError(f"{path}: GPU of the trace: expected {GPU}, found {trace.gpu}")
    if open_slots := without_value(trace):
        raise PackError(
            f"{path}: no value for {listed(open_slots)}; 'gramophone build --keep-inputs' keeps recorded inputs"
        )
    if strange := [
        slot.name for slot in trace.slots if slot.kind == SlotKind.OUTPUT and not WORD.fullmatch(slot.name)
    ]:
        raise PackError(
            f"{path}: names of outputs: expected letters, digits, '.', '_' and '-', found {listed(strange)}"
        )
    return trace


def _sources(signer: FileSigner) -> dict[str, bytes]:
    """The generated folder of the platform linux, with the port of this extra named in its Makefile."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "out"
        options = Options(GPU, platform_of(PLATFORM), signer.public, libraries.source())
        generator.generate(options, folder)
        found = {
            str(path.relative_to(folder)): read_file(path) for path in sorted(folder.rglob("*")) if path.is_file()
        }
    makefile, count = re.subn(rb"(?m)^PORT := .*$", f"PORT := {OBJECTS}".encode(), found["Makefile"])
    if count != 1:
        raise PackError(f"the generated Makefile: expected one line 'PORT :=', found {count}")
    return {**{name: data for name, data in found.items() if name not in UNUSED}, "Makefile": makefile}
