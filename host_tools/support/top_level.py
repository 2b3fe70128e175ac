# SPDX-License-Identifier: BSD-2-Clause
"""Whether our top-level packages are the ones that Python imports: their names are words that others use, too.

Standard library only, and nothing of ours: it is asked when an import of ours has failed (docs/adr/0073).
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

PACKAGES = ("baremetal", "signing", "tee_replayer", "trace_format")  # beside host_tools, which is this
DISTRIBUTION = "gramophone"
ADVICE = f"install {DISTRIBUTION} into an environment of its own, e.g. with pipx"


def clash() -> str | None:
    """What another distribution or folder has put in the place of ours, as one sentence; None: nothing."""
    from importlib.metadata import packages_distributions  # it takes long, and is asked after an error only

    importlib.invalidate_caches()
    home = Path(__file__).parents[2]
    owners = packages_distributions()
    for name in PACKAGES:
        others = sorted({owner for owner in owners.get(name, ()) if owner != DISTRIBUTION})
        by = f" by {' and '.join(others)}" if others else ""
        try:
            spec = importlib.util.find_spec(name)
        except ValueError:  # loaded, without a spec
            spec = None
        found = next(iter(spec.submodule_search_locations or [spec.origin or ""]), "") if spec else ""
        if Path(found) != home / name:
            return f"expected {DISTRIBUTION}'s {name!r} in {home}, found another{by}: {found or 'none'}; {ADVICE}"
        if others:
            return f"{home / name} was written into{by}, which has a package {name!r}, too; {ADVICE}"
    return None
