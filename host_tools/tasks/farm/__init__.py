# SPDX-License-Identifier: BSD-2-Clause
"""Tasks on other computers: a scheduler hands them out, a store that all reach has what they read and write.

What this project needs of a scheduler is an Executor (concurrent.futures): one file each, named in schedulers.py.

Read first: work.py
"""
