# SPDX-License-Identifier: BSD-2-Clause
"""The networks of GPUReplay's public recordings: a description of each (NETWORK.toml), and weights laid out as
their slots want them.

Not in here: computing them: NumPy's opinion is in `docs/examples/reference.py`.

Read first: file.py
"""
