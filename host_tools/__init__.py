# SPDX-License-Identifier: BSD-2-Clause
"""The command `gramophone` and all that runs on a host, in rooms that stand on floors: a room imports only from
rooms below its own. docs/DESIGN.md has the picture.

Not in here: what devices run (`tee_replayer`, `baremetal`), formats (`trace_format`), keys and envelopes
(`signing`).

Read first: cli.py
"""
