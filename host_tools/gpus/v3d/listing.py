# SPDX-License-Identifier: BSD-2-Clause
"""A V3D's jobs for people: a compute dispatch with its shader, or the addresses of a control list.

Sources: as jobs.py; vgpu/qpu/v3d_csd.c has the meaning of the configuration words.
"""

from __future__ import annotations

from collections.abc import Callable

from host_tools.families.listing import Descriptor, Instruction, Listing, Read
from host_tools.families.transfers import UnknownListError
from host_tools.gpus.v3d.disassembly import WORD_BYTES, program
from host_tools.gpus.v3d.jobs import CODE_FLAGS, UNIFORM_BYTES, batches
from host_tools.gpus.v3d.lists import transfer
from host_tools.gpus.v3d.shaders import SINGLE_SEGMENT
from host_tools.vgpu.build import BuildError
from trace_format.profile import Job, Profile

_LISTS = {"bin": "CLE_CT0Q", "render": "CLE_CT1Q"}
_RANGE = {"BA": "first address", "EA": "end"}
_WHAT = {
    "bin": {**_RANGE, "MA": "tile memory", "MS": "bytes of tile memory", "TS": "tile state"},
    "render": _RANGE,
}


def list_job(gpu: Profile, job: Job, register: Callable[[str], int], read: Read) -> Listing:
    """A job that is started now; `register`: what has been written to one, 0 where that is not known."""
    if job.kind in _LISTS:
        prefix = _LISTS[job.kind]
        fields = {what: f"{register(f'core0.{prefix}{end}'):#x}" for end, what in _WHAT[job.kind].items()}
        try:
            moved = transfer(gpu, job.kind, register, read)
            remarks = [str(moved)] if moved else []
        except UnknownListError as error:
            remarks = [f"what the list stores is not known: {error}"]
        return Listing(job.kind, descriptors=[Descriptor("control list", -1, 0, dict(fields))], remarks=remarks)
    cfg = [register(f"core0.CSD_QUEUED_CFG{index}") for index in range(7)]
    code, uniforms = cfg[5] & ~CODE_FLAGS, cfg[6]
    found = Listing("compute", descriptors=[Descriptor("dispatch", -1, 0, _dispatch(gpu, cfg))])

    def word(index: int) -> int | None:
        data = read(0, code + WORD_BYTES * index, WORD_BYTES)
        return int.from_bytes(data, "little") if data is not None else None

    try:
        words = program(gpu.name, word, bool(cfg[5] & SINGLE_SEGMENT))
    except BuildError as error:
        found.remarks.append(f"code at {code:#010x} is not disassembled: {error}")
        return found
    reads = 0
    for index, decoded in enumerate(words):
        text = decoded.text if decoded.valid else f"no instruction: {decoded.text}"
        if decoded.reads_uniform:
            text += f"  (uniform {reads})"
            reads += 1
        found.code.append(Instruction(code + WORD_BYTES * index, WORD_BYTES, text))
    if not words:
        found.remarks.append(f"code at {code:#010x} is not mapped")
    if reads and uniforms:
        found.data.append(("uniforms", uniforms, UNIFORM_BYTES * reads))
    return found


def _dispatch(gpu: Profile, cfg: list[int]) -> dict[str, int | str]:
    flags = [
        name for bit, name in ((4, "propagate NaNs"), (2, "single segment"), (1, "four threads")) if cfg[5] & bit
    ]
    return {
        "workgroups": " x ".join(str(word >> 16) for word in cfg[:3]),
        "first workgroup": ", ".join(str(word & 0xFFFF) for word in cfg[:3]),
        "workgroup size": cfg[3] & 0xFF or 256,
        "workgroups per supergroup": cfg[3] >> 8 & 0xF or 16,
        "batches per supergroup": (cfg[3] >> 12 & 0xFF) + 1,
        "highest supergroup id": cfg[3] >> 20 & 0x3F,
        "overlaps the one before": cfg[3] >> 26 & 1,
        "batches": batches(gpu, cfg[4]),
        "code": f"{cfg[5] & ~CODE_FLAGS:#010x}",
        "flags": ", ".join(flags) or "none",
        "uniforms": f"{cfg[6]:#010x}",
    }
