# SPDX-License-Identifier: BSD-2-Clause
"""Where the device's sources are in the installed packages."""

from importlib import resources
from pathlib import Path

BARE_METAL = Path(str(resources.files("baremetal")))
REPLAYER = Path(str(resources.files("tee_replayer")))
