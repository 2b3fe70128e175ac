# SPDX-License-Identifier: BSD-2-Clause
"""What `gramophone make` runs: a graph of tasks, each a pure function of its inputs' content, a store of what they
have made, and the page with the results.

Not in here: what a project file says and which tasks that gives, which is `host_tools/commands/make_*.py`: options
are the commands' own.

Read first: task.py
"""
