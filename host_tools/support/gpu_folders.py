# SPDX-License-Identifier: BSD-2-Clause
"""The folders of the GPU families (host_tools/gpus), for rooms below them that take files from there."""

from pathlib import Path

# In the order in which a recording root holds their drivers, and the virtual GPU names its kinds.
FOLDERS = sorted((path.parent for path in Path(__file__).parents[1].glob("gpus/*/__init__.py")), reverse=True)
DEFAULT_GPU = "v3d42"  # of recordings and commands that name none
