# SPDX-License-Identifier: BSD-2-Clause
"""Passes: each a named change of a program that keeps outputs and GPU-visible memory as they are, and the order in
which `gramophone build` runs them (listing.py). To add a pass, write a function that edits a `Program`.

Not in here: passes for the GPUs of one family (`gpus/FAMILY`), the model of memory that they edit (`model`), what
jobs access (`accesses`).

Read first: registry.py
"""
