# SPDX-License-Identifier: BSD-2-Clause
"""The archive for both boards: a script, and a folder for each GPU with the generated replayer, which has another
port, and with signed networks and their outputs. The script chooses the folder.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from host_tools.demo import RAW
from host_tools.flash.containers import pack_archive
from host_tools.machine.placements import PLACEMENTS
from host_tools.passes.pipeline import KEEP_INPUTS, build
from host_tools.runners import libraries, vgpu
from host_tools.support.gpu_folders import DEFAULT_GPU
from host_tools.support.tensors import npy, without_value
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tee_replayer.generator import generate as generator
from tee_replayer.generator.linux_folder import Linux
from tee_replayer.generator.options import Options
from trace_format import profile
from trace_format.errors import GramophoneError, listed
from trace_format.files import read_file
from trace_format.licence import SPDX
from trace_format.schema import SlotKind
from trace_format.trace import Trace

HERE = Path(__file__).resolve().parent
PORT, NETWORKS = HERE / "port", HERE / "networks"
GPUS = tuple(sorted(path.name for path in NETWORKS.iterdir()))
OF_BOTH = ("try-gpu.sh", "README.txt")
SCRIPT, LIST, COMPATIBLE = OF_BOTH[0], "networks.txt", "compatible.txt"
UNUSED = ("uio.c", "take.c", "carveout.dtso", "70-gramophone.rules", "README.md")  # of the platform's own port
OBJECTS = "devmem.o registers.o power.o sms.o pinned.o clock.o sysfs.o"
TOP = "try-gpu"  # folder in the archive
WORD = re.compile(r"[A-Za-z0-9_.-]+")  # of names that become words of the script


class PackError(GramophoneError):
    """A network that the archive cannot take."""


@dataclass(frozen=True)
class Packed:
    """The archive, and what is in it: GPU -> name of each network -> its jobs."""

    data: bytes
    networks: dict[str, dict[str, int]]


def pack(more: Sequence[Path] = ()) -> Packed:
    """The archive.

    The networks are signed with a key that only this archive has.

    Args:
        more: further built traces for a board's GPU.

    Raises:
        PackError: a trace for another GPU, with an input that has no value, or with a name of another network's.
        GramophoneError: a trace is damaged, or the sources cannot be generated.
    """
    signer = FileSigner(generate(Algorithm.ES256))
    networks = {gpu: _networks(gpu) for gpu in GPUS}
    for path in more:
        trace = _checked(path)
        networks[trace.gpu][_name(path, networks[trace.gpu])] = trace
    files = {name: read_file(PORT / name) for name in OF_BOTH}
    for gpu, traces in networks.items():
        files |= {
            f"{gpu}/{name}": data for name, data in (_sources(gpu, signer) | _signed(traces, signer)).items()
        }
    data = pack_archive({f"{TOP}/{name}": data for name, data in files.items()})
    jobs = {gpu: {name: trace.jobs for name, trace in traces.items()} for gpu, traces in networks.items()}
    return Packed(data, jobs)


def _networks(gpu: str) -> dict[str, Trace]:
    """The demo's LeNet, and the self-tests."""
    kept = {path.stem: Trace.read(path) for path in sorted((NETWORKS / gpu).glob("*.gtr"))}
    return ({"lenet": _demo()} if gpu == DEFAULT_GPU else {}) | kept


def _demo() -> Trace:
    data = read_file(RAW)
    return Trace.parse(build(Trace.parse(data), source=data, skip=KEEP_INPUTS).build())


def _signed(traces: dict[str, Trace], signer: FileSigner) -> dict[str, bytes]:
    """Files of a GPU's networks: signed, with the outputs of the virtual GPU, and their list."""
    files, lines = {}, []
    for name, trace in traces.items():
        signed = files[f"{name}.sgtr"] = sign_trace(trace.build(), signer)
        result = vgpu.replay(vgpu.REQUEST(Delivery(signed), signer.public))
        if not result.ok:
            raise PackError(f"{name}: expected a replay on the virtual GPU, found: {result.error}")
        files |= {f"expected/{name}.{slot}.npy": npy(array) for slot, array in result.outputs.items()}
        lines.append(" ".join([f"{name}.sgtr", *result.outputs]) + "\n")
    return {**files, LIST: "".join(lines).encode()}


def _name(path: Path, known: dict[str, Trace]) -> str:
    name = path.stem
    if not WORD.fullmatch(name) or name in known:
        raise PackError(
            f"{path}: name of the file: expected letters, digits, '.', '_' and '-', none of {listed(known)}"
        )
    return name


def _checked(path: Path) -> Trace:
    trace = Trace.read(path)
    if trace.gpu not in GPUS:
        raise PackError(f"{path}: GPU of the trace: expected {' or '.join(GPUS)}, found {trace.gpu}")
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


def _sources(gpu: str, signer: FileSigner) -> dict[str, bytes]:
    """The generated folder of the platform linux, with the port of this extra named in its Makefile."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "out"
        generator.generate(Options(gpu, Linux(polls=True), signer.public, libraries.source()), folder)
        found = {
            str(path.relative_to(folder)): read_file(path) for path in sorted(folder.rglob("*")) if path.is_file()
        }
    makefile, count = re.subn(rb"(?m)^PORT := .*$", f"PORT := {OBJECTS}".encode(), found["Makefile"])
    if count != 1:
        raise PackError(f"the generated Makefile: expected one line 'PORT :=', found {count}")
    port = {path.name: read_file(path) for path in sorted(PORT.iterdir()) if path.is_file()}
    compatible = PLACEMENTS[gpu].compatible
    return {
        **{name: data for name, data in found.items() if name not in UNUSED},
        **{name: data for name, data in port.items() if name not in OF_BOTH},
        "Makefile": makefile,
        "devmem_target.h": _target(gpu, compatible).encode(),
        COMPATIBLE: f"{compatible}\n".encode(),
    }


def _target(gpu: str, compatible: str) -> str:
    """What the port takes from the GPU's profile, and how the device tree calls the GPU."""
    facts = profile.load(gpu)
    start = next(job.start.offset for job in facts.jobs if job.kind == "compute")
    return (
        f"/* {SPDX} */\n/* {facts.title}; do not edit. */\n"
        "#ifndef GRAMOPHONE_DEVMEM_TARGET_H\n#define GRAMOPHONE_DEVMEM_TARGET_H\n\n"
        f'#define GR_COMPATIBLE "{compatible}"\n'
        f"#define GR_JOB_START {start:#06x}u /* a write starts a compute job */\n\n#endif\n"
    )
