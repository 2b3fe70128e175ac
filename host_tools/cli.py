# SPDX-License-Identifier: BSD-2-Clause
"""The `gramophone` command: the commands of the core by section, and those of the extras.

The summaries are the first sentences of the commands' own help; a test compares them.
"""

from __future__ import annotations

import click

from host_tools.commands.tree import MORE, GramophoneGroup, Tree, Word, add_extra, add_foreign
from host_tools.support.extra import LazyCommand, own
from host_tools.support.version import VERSION


def _at(function: str, summary: str) -> LazyCommand:
    return LazyCommand(f"host_tools.commands.{function}", summary)


SECTIONS = {
    "Start": {
        "inspect": _at("inspect:inspect_command", "Identify a file and show its main figures."),
        "report": _at(
            "report:report_command",
            "Write one page about a trace: signers, needs, jobs.",
        ),
        "manual": _at("manual:manual_command", "Install man pages, shell completion and JSON Schemas."),
        "cache list": _at("cache:list_command", "Show the parts of the cache: files, size, days unused."),
        "cache clean": _at(
            "cache:clean_command",
            "Remove parts of the cache.",
        ),
    },
    "Record": {
        "check": _at("check:check_command", "Say how a network will be recorded, before it is."),
        "record onnx": _at("record_models:record_onnx", "Record an ONNX network, by ncnn or by tinygrad."),
        "record ncnn": _at(
            "record:record_ncnn",
            "Record an ncnn network on Debian's unmodified GPU stack.",
        ),
        "record run": _at("record:record_run", "Record an aarch64 program that uses the GPU."),
        "record layers": _at(
            "record_layers:record_layers",
            "Show which layers and operators can be recorded.",
        ),
        "record pi-kit": _at(
            "record:record_pi_kit",
            "Pack what a Raspberry Pi 4 needs to record a network.",
        ),
        "record pi": _at("record:record_pi", "Turn a Raspberry Pi 4's recording into a raw trace."),
        "record self-test": _at(
            "record:record_self_test", "Record a small network that stresses one part of a GPU."
        ),
    },
    "Build": {
        "build": _at("build:build_command", "Turn a raw recording into a trace worth signing."),
        "dump": _at("dump:dump_command", "Print a trace: manifest, slots and every action."),
        "assemble": _at("dump:assemble_command", "Turn the text of `dump --format text` into a trace."),
        "diff": _at(
            "diff:diff_command",
            "Show all differences between two traces or two images.",
        ),
    },
    "Sign": {
        "key new": _at("keys:keygen", "Make a private key (PEM, PKCS#8)."),
        "key public": _at("keys:getpub", "Write the public key of a key file (PEM)."),
        "key show": _at("keys:keyinfo", "Show the kind and id of a key."),
        "sign": _at("sign:sign", "Sign a trace."),
        "strip": _at("sign:strip", "Remove the signature from a trace."),
        "encrypt": _at("encrypt:encrypt", "Encrypt a trace's actions, weights, shaders and notes."),
        "decrypt": _at("encrypt:decrypt", "Decrypt a trace."),
        "policy": _at("policy:policy_group", "Make, change, sign and publish a trust policy."),
    },
    "Device": {
        "generate": _at("generate:generate_command", "Write a device's replayer: C sources and a Makefile."),
        "flash": _at("flash:flash_command", "Pack a generated folder into an image, or check an image."),
        "enrol": _at("enrol:enrol", "Make a device's secret, and keys for its verifiers."),
    },
    "Run": {
        "replay": _at(
            "replay:replay_command",
            "Verify and replay a signed trace on an emulated device.",
        ),
        "bench": _at("bench:bench_command", "Measure what replays of a signed trace cost."),
    },
    "Audit": {
        "lint": _at("lint:lint_command", "Check a trace by rules, without a GPU."),
        "verify trace": _at("sign:verify", "Verify a trace's signatures and content."),
        "verify log": _at(
            "verify_log:verify_log_command", "Verify that a replay log is the device's and complete."
        ),
        "verify attestation": _at(
            "verify_report:verify_report_command",
            "Verify a device's attestation of outputs.",
        ),
        "audit-firmware": _at(
            "audit_firmware:audit_firmware_command",
            "Check a compiled firmware by its code and constants.",
        ),
    },
    MORE: {},
}
WORDS = {
    "cache": Word("List the cache, and remove parts of it.", "gramophone cache list"),
    "record": Word(
        "Record an unmodified GPU stack on a virtual GPU.",
        "gramophone record ncnn lenet.param lenet.bin --shape data=1x28x28 -o lenet.raw.gtr",
    ),
    "key": Word("Make keys and show them.", "gramophone key new -o owner.pem --ask-passphrase"),
    "verify": Word(
        "Verify signatures, logs and attestations.",
        "gramophone verify trace net.sgtr --key owner.pub.pem",
        usual="trace",
    ),
}
# Old names, for one release.
RENAMED = {
    "keygen": "key new",
    "getpub": "key public",
    "keyinfo": "key show",
    "verify-log": "verify log",
    "verify-report": "verify attestation",
}


def tree() -> Tree:
    """All commands, as they are without other people's packages."""
    made = Tree({title: dict(rows) for title, rows in SECTIONS.items()}, dict(WORDS), dict(RENAMED))
    for extra in own():
        add_extra(made, extra)
    made.late = add_foreign
    return made


EXAMPLE = """\
gramophone build lenet.raw.gtr -o - | gramophone sign - --signing-key key.pem -o lenet.sgtr
gramophone replay lenet.sgtr --key pub.pem --input data=digit.npy --top 1"""


@click.group(
    cls=GramophoneGroup,
    tree=tree(),
    example=EXAMPLE,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(VERSION, prog_name="gramophone")
def main() -> None:
    """Run a recorded neural network on the GPU in TrustZone. Record a GPU stack once, sign the trace, and replay
    it in the secure world."""


if __name__ == "__main__":
    main()
