# SPDX-License-Identifier: BSD-2-Clause
"""Tasks on other computers: a scheduler hands them out, a store that all reach has what they read and write.

Not in here: which tasks there are, and what to do when one fails, which is the graph's (../graph.py). What is
needed of a scheduler is an Executor (concurrent.futures): one file each, named in schedulers.py.

Read first: work.py
"""
