# SPDX-License-Identifier: BSD-2-Clause
"""A process that fuzzes one parser. Its limits: 2 GiB of addresses, ten seconds for an input.

    python -m tests.fuzz.worker NAME FOLDER SECONDS RUNS    # the first of the two ends it; RUNS 0: no such limit
    python -m tests.fuzz.worker NAME FILE...                # runs a parser on files

Inputs that were tried are kept in FOLDER/corpus as far as they are new to Atheris; a finding in FOLDER/findings.
The last line that it prints says how many runs there were.
"""

from __future__ import annotations

import hashlib
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

MEMORY_BYTES = 2 << 30
INPUT_SECONDS = 10
SEED = 1


def limit() -> None:
    """What no input may exceed."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _late(_number: int, _frame: Any) -> None:
    raise TimeoutError(f"an input took more than {INPUT_SECONDS} s")


def plain(name: str, folder: Path, seconds: float, runs: int) -> int:
    """Without Atheris. Returns the exit status."""
    from tests.fuzz import mutation, parsers

    signal.signal(signal.SIGALRM, _late)
    end, done = time.monotonic() + seconds, 0
    for data in mutation.inputs(parsers.PARSERS[name].samples(), SEED):
        if time.monotonic() >= end or (runs and done >= runs):
            break
        done += 1
        signal.alarm(INPUT_SECONDS)
        try:
            parsers.once(name, data)
        except BaseException:
            path = folder / "findings" / f"finding-{hashlib.sha256(data).hexdigest()[:16]}"
            path.write_bytes(data)
            traceback.print_exc()
            print(f"runs {done}")
            return 1
        finally:
            signal.alarm(0)
    print(f"runs {done}")
    return 0


def guided(name: str, folder: Path, seconds: float) -> None:
    """With Atheris, which ends the process."""
    import atheris

    with atheris.instrument_imports(include=["trace_format", "signing", "host_tools"]):
        from tests.fuzz import parsers
    for index, sample in enumerate(parsers.PARSERS[name].samples()):
        (folder / "corpus" / f"sample-{index}").write_bytes(sample)
    longest = max(len(path.read_bytes()) for path in (folder / "corpus").iterdir())
    options = [
        f"-max_total_time={max(1, round(seconds))}",
        f"-timeout={INPUT_SECONDS}",
        f"-max_len={max(4096, 2 * longest)}",
        f"-artifact_prefix={folder}/findings/",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(folder / "corpus")], lambda data: parsers.once(name, data))
    atheris.Fuzz()


def has_atheris() -> bool:
    """Whether it is installed."""
    import importlib.util

    return importlib.util.find_spec("atheris") is not None


def main(arguments: list[str]) -> int:
    name, where, *rest = arguments
    folder = Path(where)
    limit()
    if not folder.is_dir():
        from tests.fuzz import parsers

        for path in (where, *rest):
            parsers.once(name, Path(path).read_bytes())
        return 0
    seconds, runs = float(rest[0]), int(rest[1])
    for kept in ("corpus", "findings"):
        (folder / kept).mkdir(exist_ok=True)
    if not runs and has_atheris():
        guided(name, folder, seconds)
    return plain(name, folder, seconds, runs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
