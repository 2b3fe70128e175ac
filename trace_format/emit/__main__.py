# SPDX-License-Identifier: BSD-2-Clause
"""`python -m trace_format.emit`: write every generated description; `--check`: exit 1 when one is stale."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from trace_format.emit import (
    c_header,
    c_memory,
    imhex,
    imhex_capture,
    kaitai,
    kaitai_capture,
    markdown,
    markdown_capture,
    markdown_device,
    register_map,
    register_page,
)
from trace_format.licence import SPDX

EMITTERS: dict[str, Callable[[], str]] = {
    c_header.FILE: c_header.emit,
    markdown.FILE: markdown.emit,
    kaitai.FILE: kaitai.emit,
    kaitai.SIGNED_FILE: kaitai.emit_signed,
    imhex.FILE: imhex.emit,
    markdown_capture.FILE: markdown_capture.emit,
    markdown_device.FILE: markdown_device.emit,
    kaitai_capture.FILE: kaitai_capture.emit,
    imhex_capture.FILE: imhex_capture.emit,
    **{c_memory.file_of(group): partial(c_memory.emit, group) for group in c_memory.MEMORY_FORMATS},
    register_page.FILE: register_page.emit,
    **{file: partial(register_map.emit, gpu) for gpu, (file, _) in register_map.MAPS.items()},
}


# The licence line by the file's suffix. Documents have none: REUSE.toml speaks for them.
COMMENTS = {".h": f"/* {SPDX} */\n", ".ksy": f"# {SPDX}\n", ".hexpat": f"// {SPDX}\n", ".md": ""}


def main(arguments: list[str] | None = None) -> int:
    """Write or check the generated files; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m trace_format.emit", description=__doc__)
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
    for name, emit in EMITTERS.items():
        path = options.root / name
        text = COMMENTS[path.suffix] + emit()
        old = path.read_text(encoding="utf-8") if path.exists() else ""
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


if __name__ == "__main__":
    sys.exit(main())
