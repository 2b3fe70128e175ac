# SPDX-License-Identifier: BSD-2-Clause
"""The bill of materials of the installed host tools: our sources, Python packages, programs of the system."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from packageurl import PackageURL
from packaging.requirements import Requirement

from host_tools.extras.publish.sbom.document import CRYPTO, Bill, crypto_library, files
from host_tools.machine.tested import TESTED
from host_tools.support import programs
from host_tools.support.cache import cache_dir
from host_tools.support.version import VERSION
from trace_format.errors import GramophoneError

DISTRIBUTION = "gramophone"
PACKAGES = ("trace_format", "signing", "host_tools", "tee_replayer", "baremetal")
# Programs that commands run; those that are missing are not listed.
PROGRAMS = ("gcc", "aarch64-linux-gnu-gcc", "make", "qemu-system-aarch64", "dpkg-source", "fdtput")
_LONGEST_LICENCE = 80  # in the metadata's old field; whole texts are found there, too


def bill() -> Bill:
    """What the host tools are made of, here and now.

    Raises:
        GramophoneError: they, or what they need, are not installed as Python packages.
    """
    try:
        subject = _distribution(metadata.distribution(DISTRIBUTION), ComponentType.APPLICATION)
        found = _distributions()
    except metadata.PackageNotFoundError as error:
        raise GramophoneError(f"the Python package {error.name} is not installed: run `make setup`") from None
    libraries = {name: _distribution(item, ComponentType.LIBRARY) for name, (item, _) in found.items()}
    needs = {libraries[name]: [libraries[other] for other in others] for name, (_, others) in found.items()}
    return Bill(subject, [*map(_own, PACKAGES), *libraries.values(), *_programs(), *_crypto()], needs)


def _own(package: str) -> Component:
    folder = Path(str(import_module(package).__file__)).parent
    return Component(
        name=package,
        version=VERSION,
        type=ComponentType.LIBRARY,
        bom_ref=f"package:{package}",
        components=files(folder, f"{package}/", links=True),
    )


def _distributions() -> dict[str, tuple[metadata.Distribution, list[str]]]:
    """The Python packages that are installed and needed, by canonical name, each with those that it needs."""
    found: dict[str, tuple[metadata.Distribution, list[str]]] = {}
    left = _needed(metadata.distribution(DISTRIBUTION))
    while left:
        name = left.pop()
        if name not in found:
            distribution = metadata.distribution(name)
            found[name] = distribution, _needed(distribution)
            left += found[name][1]
    return dict(sorted(found.items()))


def _needed(distribution: metadata.Distribution) -> list[str]:
    """Canonical names of what a distribution needs here, without its extras."""
    wanted = (Requirement(line) for line in distribution.requires or ())
    return sorted({_canonical(i.name) for i in wanted if not i.marker or i.marker.evaluate({"extra": ""})})


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _distribution(distribution: metadata.Distribution, kind: ComponentType) -> Component:
    name = _canonical(distribution.name)
    fields = (distribution.metadata.get_all(field) for field in ("License-Expression", "License"))
    said = next((found[0] for found in fields if found), "")
    licence = said.strip() if len(said) < _LONGEST_LICENCE and "\n" not in said.strip() else ""
    return Component(
        name=name,
        version=distribution.version,
        type=kind,
        bom_ref=f"pypi:{name}",
        purl=PackageURL("pypi", None, name, distribution.version),
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [],
    )


def _programs() -> Iterator[Component]:
    """Programs on the path, with the first line that they print about their version."""
    for name in PROGRAMS:
        if shutil.which(name) is None:
            continue
        done = programs.run([name, "--version"])
        line = (done.stdout.splitlines() or [""])[0]
        version = re.search(r"\d+(\.\d+)+", line.rpartition(")")[2]) or re.search(r"\d+(\.\d+)+", line)
        yield Component(
            name=name,
            version=version[0] if version else None,
            type=ComponentType.APPLICATION,
            description=line,
            bom_ref=f"program:{name}",
            scope=ComponentScope.OPTIONAL,
        )


def _crypto() -> Iterator[Component]:
    """Crypto libraries in the cache, which `generate` copies from; before it has run, those that it will take."""
    for name, (package, _) in CRYPTO.items():
        kept = sorted(path.name for path in cache_dir("source", package).iterdir() if path.is_dir())
        yield from (crypto_library(name, version) for version in kept or [TESTED[package]])
