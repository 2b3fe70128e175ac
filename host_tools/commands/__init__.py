# SPDX-License-Identifier: BSD-2-Clause
"""The commands, each in a module of its name (`gramophone replay` is replay.py), and what they share: options,
files, exit statuses, `--json`. A command reads its arguments, calls one of the rooms below, and returns an
`Outcome`.

Not in here: what the commands do: that is in the rooms below. A result's fields, which `--json`
prints, are a class beside its command.

Read first: framework.py
"""
