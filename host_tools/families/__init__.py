# SPDX-License-Identifier: BSD-2-Clause
"""The interface of a GPU family: what is particular to a GPU, as questions that all rooms above may ask, without
naming a family: its description (`Family`), page tables, what recorded accesses become, what a job says to people.

Not in here: the answers. Each family has a folder of `host_tools/gpus`, whose `FAMILY` is found by the name of the
GPU.

Read first: family.py
"""
