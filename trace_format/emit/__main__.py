# SPDX-License-Identifier: BSD-2-Clause
"""`python -m trace_format.emit`: write every generated description; `--check`: exit 1 when one is stale."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial

from trace_format.emit import (
    c_header,
    c_memory,
    command,
    kaitai,
    kaitai_capture,
    markdown,
    markdown_capture,
    markdown_device,
    register_map,
    register_page,
)

EMITTERS: dict[str, Callable[[], str]] = {
    c_header.FILE: c_header.emit,
    markdown.FILE: markdown.emit,
    kaitai.FILE: kaitai.emit,
    kaitai.SIGNED_FILE: kaitai.emit_signed,
    markdown_capture.FILE: markdown_capture.emit,
    markdown_device.FILE: markdown_device.emit,
    kaitai_capture.FILE: kaitai_capture.emit,
    **{c_memory.file_of(group): partial(c_memory.emit, group) for group in c_memory.MEMORY_FORMATS},
    register_page.FILE: register_page.emit,
    **{file: partial(register_map.emit, gpu) for gpu, (file, *_) in register_map.MAPS.items()},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the generated files; returns the exit status."""
    return command.run("trace_format.emit", __doc__, EMITTERS, arguments)


if __name__ == "__main__":
    sys.exit(main())
