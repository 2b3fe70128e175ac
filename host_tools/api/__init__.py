# SPDX-License-Identifier: BSD-2-Clause
"""What the commands do, as functions: `import gramophone` gives them to Python, and each command is a layer of
options and text over one of them.

Not in here: options, files' names and what is printed (`host_tools.commands`).

Read first: replaying.py
"""
