# SPDX-License-Identifier: BSD-2-Clause
"""What a trace means: its memory as a model that passes change and that becomes an image and actions, an
interpreter in Python that is independent of the C core, operators, the comparison of two traces, actions in words,
the timing of jobs, and the deadline order of networks that share a GPU.

Not in here: what jobs access (`accesses`), changes (`passes`), anything particular to a GPU (`gpus`), and the
format's bytes (`trace_format`).

Read first: memory.py
"""
