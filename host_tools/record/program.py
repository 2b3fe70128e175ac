"""Recording any program that drives the GPU: one boot, one raw trace, no slots."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from host_tools.record.convert import convert
from host_tools.record.errors import RecordError
from host_tools.record.elf import closure
from host_tools.record.machine import RAM_END, GuestJob, boot, qemu_version
from host_tools.record.root import ready_root
from host_tools.vgpu.build import qemu_plugin
from trace_format.trace import Trace


def record_program(program: Path, args: Sequence[str], files: Sequence[Path], *, name: str, gpu: str) -> Trace:
    """Boot the stack, run an aarch64 program in it and record the GPU.

    Args:
        program: ELF file on this machine; the libraries it needs are taken from the record root.
        args: its arguments; one that names a file here is taken along and passed by its base name.
        files: more files for its working directory.
        name: name of the trace.

    Raises:
        RecordError: not an aarch64 ELF, a library is missing, the program failed, or no GPU job was submitted.
    """
    root = ready_root()
    guest_args = []
    extra = list(files)
    for arg in args:
        path = Path(arg)
        if path.is_file():
            extra.append(path)
            arg = path.name
        guest_args.append(arg)
    names = [path.name for path in (program, *extra)]
    if len(set(names)) != len(names):
        raise RecordError(f"two files have one name: {', '.join(sorted(names))}")
    content = {f"work/{path.name}": path.read_bytes() for path in (program, *extra)}
    guest_program = f"work/{program.name}"
    for guest_path, host in closure(root.tree, [guest_program], {guest_program: program}).items():
        content.setdefault(guest_path, host.read_bytes())
    command = shlex.join(["cd", "/work"]) + " && " + shlex.join([f"./{program.name}", *guest_args])
    job = GuestJob(command, content, frozenset(content), gpu=gpu)
    with tempfile.TemporaryDirectory(prefix="gramophone-") as folder:
        capture = Path(folder) / "capture"
        boot(job, root, qemu_plugin(), {"gpu": gpu, "capture": str(capture)})
        meta = {"name": name, "recorder": "gramophone 0.1.0", "kernel": root.kernel_name, "driver": root.driver_name}
        return convert(capture, ram_end=RAM_END, meta=meta, notes={"packages": root.versions, "qemu": qemu_version()})
