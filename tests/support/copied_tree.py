# SPDX-License-Identifier: BSD-2-Clause
"""A copy of the sources in which a recipe is followed, and in which scripts run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.support.places import CHECKOUT
from tests.support.porting import TREE, Recipe

PREAMBLE = """
import sys
from pathlib import Path
from click.testing import CliRunner
from host_tools.cli import main

folder = Path(sys.argv[1])
def shown(command):
    return " ".join(CliRunner().invoke(main, [*command.split(), "--help"]).output.split())
"""


class CopiedTree:
    """A copy of the sources in which a recipe was followed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def following(cls, recipe: Recipe, root: Path) -> Self:
        """Make it, in a folder that is not there yet."""
        root.mkdir()
        ignored = shutil.ignore_patterns("__pycache__", "*.gtr")
        for name in (*TREE, "tests/support"):
            if (CHECKOUT / name).is_dir():
                shutil.copytree(CHECKOUT / name, root / name, ignore=ignored)
            else:
                shutil.copyfile(CHECKOUT / name, root / name)
        (root / "tests" / "__init__.py").touch()
        for name, text in recipe.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text(), encoding="utf-8")
        return cls(root)

    def run(self, script: str, folder: Path) -> None:
        """Run a script with this tree's packages; it has `folder`, and `shown(COMMAND)`, the text of its help."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", PREAMBLE + script, str(folder)]
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
