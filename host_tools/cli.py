# SPDX-License-Identifier: BSD-2-Clause
"""The `gramophone` command: one group, its commands by subject in `host_tools.commands`.

A command's module is imported when the command is used, so that help and the version need neither NumPy nor
cryptography. The summaries are the first sentences of the commands' own help; a test compares them.
"""

from __future__ import annotations

import click

from host_tools.commands.framework import GramophoneGroup, LazyCommand
from host_tools.support.version import VERSION

# Name: function, as module of host_tools.commands and name there; first sentence of its help.
COMMANDS = {
    "record": LazyCommand(
        "record.record", "Record what the unmodified GPU stack does, on a virtual GPU in an emulated machine."
    ),
    "import": LazyCommand(
        "import_recording.import_group", "Turn a recording that another tool made into a raw trace."
    ),
    "build": LazyCommand("build.build_command", "Turn a raw recording into a trace worth signing."),
    "dump": LazyCommand("dump.dump_command", "Print what a trace says: manifest, slots and every action."),
    "assemble": LazyCommand("dump.assemble_command", "Make a trace of a text that `dump --format text` printed."),
    "inspect": LazyCommand(
        "inspect.inspect_command",
        "Say what a file is, and its main figures.",
    ),
    "cache": LazyCommand("cache.cache_group", "Show what is kept between runs, and remove it."),
    "make": LazyCommand(
        "make.make_command",
        "Make what a project file names and is not up to date: traces, firmware, images.",
    ),
    "manual": LazyCommand(
        "manual.manual_command", "Install man pages, shell completion, and JSON Schemas of what --json prints."
    ),
    "diff": LazyCommand(
        "diff.diff_command",
        "Say what differs between two traces or two images, and that nothing else does.",
    ),
    "lint": LazyCommand(
        "lint.lint_command", "Judge what a trace would make a GPU do, by rules and without a GPU."
    ),
    "audit-firmware": LazyCommand(
        "audit_firmware.audit_firmware_command",
        "Judge a compiled firmware by its code and constants, with or without symbols.",
    ),
    "keygen": LazyCommand("keys.keygen", "Make a private key (PEM, PKCS#8), encrypted if there is a passphrase."),
    "getpub": LazyCommand("keys.getpub", "Get the public key of a key file (PEM)."),
    "keyinfo": LazyCommand("keys.keyinfo", "Say what is in a key file."),
    "policy": LazyCommand(
        "policy.policy_group", "Make a trust policy, which says who signs traces and policies, and change it."
    ),
    "encrypt": LazyCommand("encrypt.encrypt", "Encrypt a trace's body: its actions, weights, shaders and notes."),
    "decrypt": LazyCommand("encrypt.decrypt", "Decrypt a trace."),
    "sign": LazyCommand("sign.sign", "Sign a trace."),
    "strip": LazyCommand("sign.strip", "Take the signature away: the trace without its envelope."),
    "verify": LazyCommand("sign.verify", "Check who signed a trace, and that no bit of it has changed since."),
    "enrol": LazyCommand("enrol.enrol", "Make the keys of a device: its secret, and what others get of it."),
    "verify-log": LazyCommand(
        "verify_log.verify_log_command", "Check that a replay log is the device's, whole and in order."
    ),
    "fleet": LazyCommand(
        "fleet.fleet_command",
        "Check the replay logs of many devices, and say what those have done, by device and over time.",
    ),
    "verify-report": LazyCommand(
        "verify_report.verify_report_command",
        "Check what a device attests: that this firmware and this trace gave these outputs, for this nonce.",
    ),
    "generate": LazyCommand(
        "generate.generate_command",
        "Write a replayer for one device: C sources, and a Makefile.",
    ),
    "replay": LazyCommand(
        "replay.replay_command",
        "Verify, load and replay a signed trace, in the secure world of an emulated device or on the virtual GPU.",
    ),
    "bench": LazyCommand(
        "bench.bench_command", "Measure what a signed trace costs: minimum and median of several replays."
    ),
    "time": LazyCommand(
        "time.time_command",
        "Estimate how long each job of a trace takes on a board's GPU, with an interval.",
    ),
    "simulate": LazyCommand(
        "simulate.simulate_command", "Say whose requests are late if several networks share a GPU, by policy."
    ),
    "join": LazyCommand(
        "join.join_command",
        "Join traces of several networks to one, with one image and each its own working memory.",
    ),
    "calibrate": LazyCommand(
        "calibrate.calibrate_command",
        "Fit the constants of `time` to how long replays took on a board.",
    ),
    "report": LazyCommand(
        "report.report_command",
        "Write how a trace behaves on one page: who signed it, what it needs, what its jobs touch.",
    ),
    "sbom": LazyCommand(
        "sbom.sbom",
        "Write a bill of materials (SBOM, CycloneDX 1.6 JSON) of the host tools, a generated folder or a trace.",
    ),
    "provenance": LazyCommand(
        "provenance.provenance",
        "State what a trace was made of: a signed in-toto statement with SLSA provenance, beside the trace.",
    ),
    "verify-provenance": LazyCommand(
        "provenance.verify_provenance",
        "Check who signed a statement of provenance, that it is about this trace, and says what the trace says.",
    ),
    "suit": LazyCommand("suit.suit_group", "Put a signed trace into a SUIT envelope, and take it out again."),
    "tuf": LazyCommand(
        "tuf.tuf_group",
        "Publish signed traces and policies in a TUF repository, whose clients notice old and missing files.",
    ),
    "flash": LazyCommand(
        "flash.flash_command", "Pack a generated folder for its board, or check what is in an image."
    ),
}


EXAMPLE = """\
gramophone build lenet.raw.gtr -o - | gramophone sign - --signing-key key.pem -o lenet.sgtr
gramophone replay lenet.sgtr --key pub.pem --input data=digit.npy --top 1"""


@click.group(
    cls=GramophoneGroup,
    lazy=COMMANDS,
    example=EXAMPLE,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(VERSION, prog_name="gramophone")
def main() -> None:
    """Record what a GPU stack does once, sign it, replay it from the secure world."""


if __name__ == "__main__":
    main()
