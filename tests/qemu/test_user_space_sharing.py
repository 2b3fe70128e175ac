# SPDX-License-Identifier: BSD-2-Clause
"""Two networks of a joint trace in a process of Linux: requests with deadlines, by the Python module."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from host_tools.machine.boot import boot
from host_tools.machine.console import GuestResult
from host_tools.machine.elf import closure
from host_tools.machine.root import RecordRoot
from host_tools.runners import user_space
from host_tools.support.tensors import npy
from host_tools.vgpu.build import qemu_plugin
from tee_replayer.generator.linux_folder import HERE as LINUX
from tests.qemu.test_user_space import CTYPES, GPU
from tests.support import replayer_samples as s
from tests.vgpu.test_joined import expected, inputs, joint, single

NAMES = ("lenet", "lenet-2")
SEEDS = 6
# Requests of both networks with other inputs each, of which the second's are due first; then what is refused.
SHARED = f"""
import sys
sys.path.insert(0, "/job")
from gramophone_gpu import Gpu, GpuError
with Gpu() as gpu:
    gpu.load(open("/job/joint.sgtr", "rb").read())
    outputs = {{}}
    for name in gpu.networks:
        outputs[name] = bytearray(gpu.slots[name + "/prob"].bytes)
        gpu.bind(name + "/prob", outputs[name])
    order = []
    for seed in range(0, {SEEDS}, 2):
        asked = {{}}
        for name, number, within in (("{NAMES[0]}", seed, None), ("{NAMES[1]}", seed + 1, 10**12)):
            gpu.bind(name + "/data", open(f"/job/{{number}}", "rb").read())
            asked[gpu.submit(name, within) if within else gpu.submit(name)] = name, number
        pieces = 0
        while gpu.waiting:
            over = gpu.step()
            pieces += 1
            if over:
                name, number = asked[over]
                order.append(number)
                open(f"/out/{{number}}", "wb").write(outputs[name])
    print("order", *order, "pieces", pieces)
    taken = gpu.submit("{NAMES[0]}")
    gpu.step()
    gpu.withdraw(taken)
    for refused in (lambda: gpu.submit("{NAMES[0]}", 1), lambda: gpu.submit("third"), lambda: gpu.withdraw(taken)):
        try:
            refused()
        except GpuError as error:
            print("refused", error, error.refused)
    gpu.run("{NAMES[1]}")
    open("/out/again", "wb").write(outputs["{NAMES[1]}"])
print("ended", flush=True)
"""


@pytest.fixture(scope="module")
def guest(root: RecordRoot) -> GuestResult:
    (slot,) = (slot.name for slot in single(NAMES[0]).slots[:1])
    ctypes = closure(root.tree, [str(path.relative_to(root.tree)) for path in root.tree.glob(CTYPES)])
    folder: Path = user_space.build(s.KEY, GPU, networks=2, schedule=4)
    values = [inputs(single(NAMES[0]), seed)[slot] for seed in range(SEEDS)]
    files = {
        **{path: host.read_bytes() for path, host in ctypes.items()},
        "job/shared.py": SHARED.encode(),
        "job/gramophone_gpu.py": (LINUX / "gramophone_gpu.py").read_bytes(),
        "usr/lib/libgramophone_gpu.so": (folder / "libgramophone_gpu.so").read_bytes(),
        "job/joint.sgtr": s.signed(joint(NAMES).trace),
        **{f"job/{seed}": value.tobytes() for seed, value in enumerate(values)},
        "job/0.npy": npy(values[0]),
    }
    command = "gramophone-gpu replay /job/joint.sgtr"
    given = f"--input {NAMES[1]}/data=/job/0.npy --output {NAMES[1]}/prob=/out/command.npy"
    script = [
        user_space.LOAD,
        "gramophone-gpu take",
        "python3.13 -S -B /job/shared.py",
        f"{command} --network {NAMES[1]} {given}",
        f"{command} --network third {given}; echo status $?",
    ]
    job = user_space.job_with(root, folder, "\n".join(script), files, GPU, frozenset(ctypes))
    return boot(job, root, qemu_plugin())


def test_all_outputs_are_those_of_single_traces(guest: GuestResult) -> None:
    assert "ended" in guest.output, guest.output
    for seed in range(SEEDS):
        assert guest.files[str(seed)] == expected(NAMES[0], seed)["prob"]
    assert guest.files["again"] == expected(NAMES[0], SEEDS - 1)["prob"]


def test_the_earliest_deadline_is_first(guest: GuestResult) -> None:
    (row,) = (line.split() for line in guest.output.splitlines() if line.startswith("order"))
    assert row[1:-2] == ["1", "0", "3", "2", "5", "4"]
    assert int(row[-1]) == 2 * single(NAMES[0]).jobs, "a piece is a job"


def test_refusals(guest: GuestResult) -> None:
    late, unknown, over = (line for line in guest.output.splitlines() if line.startswith("refused"))
    assert late.endswith("True")
    assert unknown == "refused no network 'third'; there are: lenet, lenet-2 False"
    assert over.endswith("True")


def test_the_command_takes_a_network(guest: GuestResult) -> None:
    found = np.load(io.BytesIO(guest.files["command.npy"]))
    assert found.tobytes() == expected(NAMES[0], 0)["prob"]
    assert "error: no network third" in guest.output
    assert "status 2" in guest.output
