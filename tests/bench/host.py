# SPDX-License-Identifier: BSD-2-Clause
"""Benchmark: what commands on the host cost with a network: CPU time, and peak memory against the file's size.

Each command is a process of its own, as users start it. CPU time is that of all its threads, user and system.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from host_tools.support import programs
from signing.key_files import private_pem
from signing.keys import Algorithm, generate
from signing.sign import FileSigner
from tests.bench import breadth, usage
from tests.bench.networks import raw_file
from tests.support.places import CHECKOUT
from trace_format.actions import ACTION_DTYPE, Op, action
from trace_format.errors import GramophoneError
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace


@dataclass(frozen=True)
class Cost:
    """Of one command.

    Attributes:
        name: network and command.
        cpu_s: CPU seconds.
        peak_bytes: resident memory at its largest.
        file_bytes: size of the file that it reads; 0 where it reads none but a key.
        base_bytes: resident memory of a command that reads none, at its largest: interpreter and libraries.
    """

    name: str
    cpu_s: float
    peak_bytes: int
    file_bytes: int
    base_bytes: int

    @property
    def bytes_per_s(self) -> float:
        """Bytes of the file a CPU second, the interpreter's start included."""
        return self.file_bytes / self.cpu_s

    @property
    def files(self) -> float | None:
        """Peak memory above the base, in multiples of the file; None where it reads none."""
        return (self.peak_bytes - self.base_bytes) / self.file_bytes if self.file_bytes else None


BROAD = ("resnet50",)  # networks of the table of what runs
LARGE_BYTES = 100 << 20  # of image, which LZ4 does not shrink: as much as ResNet-50's recording


def measure_large() -> list[Cost]:
    """What `sign` and `verify` take for a trace of LARGE_BYTES that does nothing.

    Raises:
        GramophoneError: a command failed.
    """
    start = np.array([action(Op.REPLAY_START)], ACTION_DTYPE)
    trace = Trace("v3d42", start, np.random.default_rng(1).bytes(LARGE_BYTES), LARGE_BYTES, PAGE_BYTES)
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "net.gtr"
        built.write_bytes(trace.build())
        del trace
        return _signing("100 MiB", built)


def measure(name: str) -> list[Cost]:
    """What `build`, `sign` and `verify` take for a network, and first a command that reads none.

    `build` is measured with `--observe`, too, which runs the jobs, as for a recording that does not say what they
    access, and with `--trust-note`, which does not check what it says.

    Raises:
        GramophoneError: a command failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        raw = breadth.recording(name, breadth.NETWORKS[name]()) if name in BROAD else raw_file(name)
        built = Path(folder) / "net.gtr"
        costs = [
            _cost(f"{name}, build --observe", raw, 0, "build", raw, "--observe", "-o", built),
            _cost(f"{name}, build --trust-note", raw, 0, "build", raw, "--trust-note", "-o", built),
            _cost(f"{name}, build", raw, 0, "build", raw, "-o", built),
        ]
        keyinfo, *others = _signing(name, built)
        return [keyinfo, *(replace(cost, base_bytes=keyinfo.base_bytes) for cost in costs), *others]


def _signing(name: str, built: Path) -> list[Cost]:
    """Of `key show`, `sign` and `verify`, with a new key beside the trace."""
    key = generate(Algorithm.ES256)
    signed, private, public = (built.with_name(file) for file in ("net.sgtr", "key.pem", "pub.pem"))
    private.write_bytes(private_pem(key, None))
    public.write_bytes(FileSigner(key).public.pem())
    keyinfo = _cost(f"{name}, key show", None, 0, "key", "show", public)
    base = keyinfo.peak_bytes
    return [
        replace(keyinfo, base_bytes=base),
        _cost(f"{name}, sign", built, base, "sign", built, "--signing-key", private, "-o", signed),
        _cost(f"{name}, verify", signed, base, "verify", signed, "--key", public),
    ]


def _cost(name: str, file: Path | None, base_bytes: int, *arguments: str | Path) -> Cost:
    command = [sys.executable, usage.__file__, sys.executable, "-m", "host_tools.cli", *map(str, arguments)]
    done = programs.run(command, cwd=CHECKOUT)
    if done.returncode:
        raise GramophoneError(f"gramophone {arguments[0]} failed: {done.stderr.strip()[-2000:]}")
    found = json.loads(done.stderr.splitlines()[-1])
    return Cost(name, found["cpu_s"], found["peak_bytes"], file.stat().st_size if file else 0, base_bytes)
