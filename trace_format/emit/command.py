# SPDX-License-Identifier: BSD-2-Clause
"""The command of a module that writes generated descriptions, or checks that they are up to date."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trace_format.files import read_file_text
from trace_format.licence import SPDX

# The licence line by the file's suffix. Documents have none: REUSE.toml speaks for them.
COMMENTS = {".h": f"/* {SPDX} */\n", ".ksy": f"# {SPDX}\n", ".md": ""}


def run(
    module: str, description: str, emitters: Mapping[str, Callable[[], str]], arguments: Sequence[str] | None
) -> int:
    """Write or check the generated files; returns the exit status.

    Args:
        module: that is run.
        description: what it writes.
        emitters: file, from the root of the source tree -> its text.
        arguments: of the command line; None: the process's.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 with a diff if a file is stale"
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(__file__).resolve().parents[2],
        help="root of the source tree (default: the one this module is in)",
    )
    options = parser.parse_args(arguments)
    stale = False
    for name, emit in emitters.items():
        path = options.root / name
        text = COMMENTS[path.suffix] + emit()
        old = read_file_text(path) if path.exists() else ""
        if old == text:
            continue
        stale = True
        if options.check:
            before, after = old.splitlines(keepends=True), text.splitlines(keepends=True)
            sys.stdout.writelines(difflib.unified_diff(before, after, name, f"{name} (from its source)"))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(path.name + ".tmp")
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, path)
            print(f"wrote {name}")
    return 1 if stale and options.check else 0
