"""The `gramophone` command: one group, its commands by subject in `host_tools.commands`."""

from __future__ import annotations

import importlib

import click

from host_tools.commands.framework import GramophoneGroup

# Modules of host_tools.commands, each with a list COMMANDS.
SUBJECTS = ("recording", "importing", "traces", "signing", "replaying", "flashing")


@click.group(cls=GramophoneGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gramophone")
def main() -> None:
    """Record what a GPU stack does once, sign it, replay it from the secure world."""


for _subject in SUBJECTS:
    for _command in importlib.import_module(f"host_tools.commands.{_subject}").COMMANDS:
        main.add_command(_command)

if __name__ == "__main__":
    main()
