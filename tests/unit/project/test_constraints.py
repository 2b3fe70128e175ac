# SPDX-License-Identifier: BSD-2-Clause
"""The pinned packages can be installed by the oldest Python that the project is for."""

from __future__ import annotations

from importlib import metadata

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.packaging.pins import pinned
from tests.support.places import CHECKOUT

OLDEST_PYTHON = "3.11.2"  # of Debian bookworm


def test_pins_are_for_the_oldest_python() -> None:
    """A package's Requires-Python can name a patch level, which a newer Python does not notice."""
    pins = dict(pin.split("==") for pin in pinned((CHECKOUT / "constraints.txt").read_text(encoding="utf-8")))
    installed = {canonicalize_name(found.name): found for found in metadata.distributions()}
    checked = [
        found
        for name, version in pins.items()
        if (found := installed.get(canonicalize_name(name))) and found.version == version
    ]
    assert len(checked) > 60, "this environment is not that of constraints.txt"
    wrong = {
        f"{found.name} {found.version}": needs
        for found in checked
        if (needs := str(found.metadata.json.get("requires_python", "")))
        and not SpecifierSet(needs).contains(OLDEST_PYTHON)
    }
    assert not wrong
