# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone chat`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import click

from host_tools.api.replaying import opened
from host_tools.commands.framework import AS_JSON, FILE, GramophoneCommand, Outcome, UsageError
from host_tools.commands.streams import read
from host_tools.extras.gguf.conversation import WHY, Conversation, Device, questions, shown
from host_tools.support.messages import warn
from host_tools.support.results import Count, Result, one_of
from signing.delivery import Delivery
from tee_replayer.generator.device_file import device_key
from trace_format.errors import GramophoneError
from trace_format.layout import naming

MACHINES = ("vgpu", "qemu", "optee", "linux")  # whose outputs are seen while they run


class Chatted(Result):
    """What was said.

    Attributes:
        answers: A text for each question.
        tokens: Of all answers.
        ended: Why the last answer ended: the model ended it, it had --tokens, or no position was left.
    """

    answers: list[str]
    tokens: Count
    ended: Annotated[str, one_of(*WHY)]


@click.command(
    "chat",
    cls=GramophoneCommand,
    reads_traces=True,
    example=(
        'gramophone chat smol.sgtr --key pub.pem --prompt "What is the capital of France?"\n'
        'gramophone chat smol.sgtr --key pub.pem --prompt "Why is the sky blue?" --on qemu --tokens 48'
    ),
)
@click.argument("signed", type=FILE)
@click.option(
    "--key", type=FILE, required=True, help="Public key (PEM) or trust policy whose traces are accepted."
)
@click.option("--prompt", help="Question to answer. Default: one a line of standard input, on vgpu.")
@click.option(
    "--on", "runner", type=click.Choice(MACHINES), default=MACHINES[0], show_default=True, help="Runner."
)
@click.option(
    "--tokens", type=click.IntRange(1, 2048), default=128, show_default=True, help="Most tokens of an answer."
)
@click.option(
    "--temperature", type=click.FloatRange(0, 100), default=0.0, show_default=True, help="0: the likeliest token."
)
@click.option(
    "--top-k",
    type=click.IntRange(1),
    metavar="TOKENS",
    help="Draw only from this many likeliest tokens. Requires --temperature.",
)
@click.option(
    "--top-p",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Draw only from the likeliest tokens that have this share of the probability. Requires --temperature.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    help="Seed of drawn tokens; with a temperature.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    metavar="SECONDS",
    help="Time limit of a run in QEMU. Requires --on qemu, optee or linux.",
)
def chat(
    signed: Path,
    key: Path,
    prompt: str | None,
    runner: str,
    tokens: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    seed: int,
    timeout: float | None,
) -> Outcome[Chatted]:
    """Put questions to a recorded language model.

    SIGNED is a trace of `record gguf`. The answer is printed as it comes. The model's words and the form of the
    conversation are in the trace, under its signature: a trace with other words is refused. Tokens are chosen on
    the GPU.
    """
    from host_tools.extras.gguf import chat as talk
    from host_tools.extras.gguf.words import noted_words

    if runner != "vgpu" and prompt is None:
        raise UsageError(f"--on {runner}: expected --prompt: a machine that boots answers one question")
    if runner == "vgpu" and timeout is not None:
        raise UsageError("--timeout cannot be used with --on vgpu: no machine boots there")
    limits = {name: value for name, value in (("top_k", top_k), ("top_p", top_p)) if value is not None}
    if limits and not temperature:
        raise UsageError(f"--{next(iter(limits)).replace('_', '-')}: expected --temperature above 0")
    delivery = Delivery(read(signed))
    subject = opened(delivery, device_key(key), str(signed))
    if not subject.is_verified:
        raise GramophoneError(subject.reason)
    with naming(str(signed)):
        trace = subject.trace or delivery.parse()  # which says why there is none
        talk.check_decoder(subject)
        words = noted_words(trace.notes)
    shows = not click.get_current_context().meta.get(AS_JSON, False)
    settings = talk.settings(temperature=temperature, seed=seed, **limits)
    with contextlib.ExitStack() as stack:
        device: Device
        if runner == "vgpu":
            from host_tools.model.interpreter import interpreter

            device = talk.OnVgpu(stack.enter_context(interpreter(trace)), settings)
        else:
            device = talk.OnMachine(runner, subject, settings, {"timeout_s": timeout} if timeout else {})
        conversation = Conversation(words, device, _shown if shows else _kept, tokens)
        for question in [prompt] if prompt is not None else questions(sys.stdin):
            conversation.ask(question)
            if shows:
                click.echo()
            if conversation.ended == "positions":
                break
    ended = conversation.ended or "end"
    if WHY[ended]:
        warn(WHY[ended])
    return Outcome(Chatted(conversation.answers, conversation.tokens, ended), "")


def _shown(text: str) -> None:
    """Print a part of an answer."""
    click.echo(shown(text), nl=False)
    sys.stdout.flush()


def _kept(text: str) -> None:
    """With --json the answer is printed at the end."""
