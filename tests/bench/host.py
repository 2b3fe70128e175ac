# SPDX-License-Identifier: BSD-2-Clause
"""Benchmark: what commands on the host cost with a network: CPU time, and peak memory against the file's size.

Each command is a process of its own, as users start it. CPU time is that of all its threads, user and system.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from host_tools.support import programs
from signing.keys import Algorithm, generate, private_pem
from signing.sign import FileSigner
from tests.bench import usage
from tests.bench.networks import raw_trace
from trace_format.errors import GramophoneError

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Cost:
    """Of one command.

    Attributes:
        name: network and command.
        cpu_s: CPU seconds.
        peak_bytes: resident memory at its largest.
        file_bytes: size of the file that it reads; 0 where it reads none but a key.
    """

    name: str
    cpu_s: float
    peak_bytes: int
    file_bytes: int


def measure(name: str) -> list[Cost]:
    """What `build`, `sign` and `verify` take for a network, and first a command that reads none.

    Raises:
        GramophoneError: a command failed.
    """
    key = generate(Algorithm.ES256)
    with tempfile.TemporaryDirectory() as folder:
        raw, built, signed, private, public = (
            Path(folder) / file for file in ("raw.gtr", "net.gtr", "net.sgtr", "key.pem", "pub.pem")
        )
        raw.write_bytes(raw_trace(name))
        private.write_bytes(private_pem(key, None))
        public.write_bytes(FileSigner(key).public.pem())
        return [
            _cost(f"{name}, keyinfo", None, "keyinfo", public),
            _cost(f"{name}, build", raw, "build", raw, "-o", built),
            _cost(f"{name}, sign", built, "sign", built, "--signing-key", private, "-o", signed),
            _cost(f"{name}, verify", signed, "verify", signed, "--key", public),
        ]


def _cost(name: str, file: Path | None, *arguments: str | Path) -> Cost:
    command = [sys.executable, usage.__file__, sys.executable, "-m", "host_tools.cli", *map(str, arguments)]
    done = programs.run(command, cwd=ROOT)
    if done.returncode:
        raise GramophoneError(f"gramophone {arguments[0]} failed: {done.stderr.strip()[-2000:]}")
    found = json.loads(done.stderr.splitlines()[-1])
    return Cost(name, found["cpu_s"], found["peak_bytes"], file.stat().st_size if file else 0)
