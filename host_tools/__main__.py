# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone`, and `python -m host_tools`: an interrupt while Python imports the command is like any other,
and packages of others in the place of ours are one sentence."""

from __future__ import annotations

import sys
from typing import NoReturn

INTERRUPTED = 130  # as in host_tools.commands.framework, which is not imported yet


def main() -> NoReturn:
    """Run the command."""
    try:
        from host_tools.cli import main as command
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(INTERRUPTED)
    except ImportError:
        from host_tools.support.top_level import clash

        if said := clash():
            sys.stderr.write(f"error: {said}\n")
            sys.exit(2)
        raise
    command()
    sys.exit()


if __name__ == "__main__":
    main()
