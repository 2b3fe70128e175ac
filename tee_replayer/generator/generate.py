# SPDX-License-Identifier: BSD-2-Clause
"""Generates the replayer for one GPU, platform and key: sources, Makefile and the crypto library's files.

A bare-metal folder is self-contained: `make -C out` needs a cross compiler and nothing of this project. So is that
for a process of Linux (`linux_folder`). That for OP-TEE becomes a part of OP-TEE's core (`optee_folder`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from signing.trust import Policy, describe
from tee_replayer.crypto import SEAMS
from tee_replayer.features import operators as operator_sources
from tee_replayer.generator import amalgamate, device_record, profiles, rollback_store
from tee_replayer.generator.decryption import HAS_ENCRYPTION, HAS_SECRET
from tee_replayer.generator.device import Device, c_bytes
from tee_replayer.generator.generated_folder import check_replaceable, write_list
from tee_replayer.generator.options import Options
from trace_format.licence import COPYRIGHT, SPDX
from trace_format.schema import VERSION_MAJOR, VERSION_MINOR

HERE = Path(__file__).resolve().parents[1]
_UNTESTED = """
## Untested combination

The project tries hostile traces on the profiles, and no profile has the features of this replayer:

    @FEATURES@
"""


def generate(options: Options, out: Path, *, force: bool = False) -> Path:
    """Write a replayer's sources.

    Args:
        options: which replayer.
        out: folder; made, or replaced when it is one that this function wrote.
        force: give up what was edited or added in `out`.

    Returns:
        `out`.

    Raises:
        FolderError: `out` holds something else, or was edited since it was generated.
    """
    check_replaceable(out, force=force)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as beside:
        work = Path(beside) / "new"
        work.mkdir()
        shutil.copyfile(HERE / "LICENSE", work / "LICENSE")
        _write_core(options, work)
        options.target.write(options, work)
        for path, data in options.programs.items():
            (work / path).write_bytes(data)
            (work / path).chmod(0o755)
        _write_record(options, work)
        write_list(work)
        if out.exists():
            os.rename(out, Path(beside) / "old")
        os.rename(work, out)
    return out


def _write_record(options: Options, folder: Path) -> None:
    """Write what was asked for, and a warning where nobody has tested it."""
    (folder / device_record.FILE).write_text(device_record.of_options(options).text, encoding="utf-8")
    features = profiles.of_options(options)
    if not features.profile:
        with (folder / "README.md").open("a", encoding="utf-8") as readme:
            readme.write(_UNTESTED.replace("@FEATURES@", ", ".join(features.names)))


def _write_core(options: Options, folder: Path) -> None:
    """Write replayer.h and replayer.c."""
    profile, evidence, operators = options.profile, options.evidence, options.operators
    notice = _notice(options)
    device = Device(options.target.name, profile.profile_id, options.min_security_version, options.key)
    defines = (
        _trust_defines(options) + _secret_defines(options) + evidence.defines + operator_sources.define(operators)
    )
    defines += f"#define {amalgamate.HAS_NETWORKS} {options.networks}\n" if options.networks else ""
    defines += f"#define {amalgamate.HAS_STEPS}\n" if options.steps or options.schedule else ""
    defines += f"#define {amalgamate.HAS_SCHEDULE} {options.schedule}\n" if options.schedule else ""
    defines += f"#define {amalgamate.HAS_STREAMING}\n" if options.streaming else ""
    defines += f"#define {amalgamate.HAS_CLOCK}\n" if options.clock else ""
    defines += f"#define {amalgamate.HAS_COMMAND_STREAMS}\n" if profile.streams else ""
    defines += rollback_store.defines(options.rollback_store)
    more = (evidence.header, rollback_store.header(options.rollback_store))
    header = amalgamate.header(notice, device.declaration(), defines, "\n".join(filter(None, more)))
    source = amalgamate.source(
        profile,
        notice,
        device.definition() + options.decryption.definition(options.target.has_secret),
        "\n".join(filter(None, (evidence.source, rollback_store.source(options.rollback_store)))),
        defines=defines,
        in_optee=options.target.in_optee,
    )
    (folder / "replayer.h").write_text(header, encoding="utf-8")
    (folder / "replayer.c").write_text(source, encoding="utf-8")


def _trust_defines(options: Options) -> str:
    if not isinstance(options.key, Policy):
        return ""
    macros = [amalgamate.HAS_TRUST, *(SEAMS[kind][1] for kind in options.linked_algorithms)]
    defines = "".join(f"#define {macro}\n" for macro in macros)
    return f"{defines}#define GR_DEVICE_ID {{{c_bytes(options.device_id)}}}\n"


def _secret_defines(options: Options) -> str:
    decrypts = options.decryption.wanted
    has_secret = options.evidence.log or (decrypts and options.target.has_secret)
    names = ((HAS_ENCRYPTION, decrypts), (HAS_SECRET, has_secret))
    return "".join(f"#define {name}\n" for name, wanted in names if wanted)


def _notice(options: Options) -> str:
    """The first comment of replayer.h and replayer.c: for what they are, and what is in them."""
    profile, target, features = options.profile, options.target, profiles.of_options(options)
    versions = options.libraries.versions
    rows = [
        ("trace format", f"{VERSION_MAJOR}.{VERSION_MINOR}"),
        ("GPU profile", f"{profile.name} {profile.profile_id:#018x}"),
        ("features", features.words if features.names else ""),
        ("trust", describe(options.key)),
        ("security version", f"at least {options.min_security_version}"),
        ("crypto", ", ".join(f"{name} {versions[name]}" for name in options.cryptography.libraries)),
        ("encryption", options.decryption.words),
        ("evidence", options.evidence.words),
        ("clock", "of the board" if options.clock else ""),
        ("rollback store", "in flash" if options.rollback_store else ""),
        ("operators", operator_sources.words(options.operators)),
    ]
    return (
        f"/* {SPDX} */\n"
        f"/* {COPYRIGHT}\n"
        " *\n"
        f" * Gramophone replayer for {profile.title} on {target.name}; generated, do not edit.\n"
        f"{''.join(f' *   {what:<16}  {value}' + chr(10) for what, value in rows if value)}"
        f"{target.notice}"
        " */"
    )
