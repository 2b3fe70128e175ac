# SPDX-License-Identifier: BSD-2-Clause
"""What a program takes: `python usage.py COMMAND...` runs it and prints one JSON object to standard error.

It is a process of its own, and a small one: on Linux the peak memory of a program counts from the process that
started it (fs/exec.c, exec_mmap).
"""

from __future__ import annotations

import json
import os
import sys


def main() -> int:
    """Run the command; returns its exit status."""
    process = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
    _, status, usage = os.wait4(process, 0)
    found = {"cpu_s": usage.ru_utime + usage.ru_stime, "peak_bytes": usage.ru_maxrss * 1024}
    print(json.dumps(found), file=sys.stderr)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
