# SPDX-License-Identifier: BSD-2-Clause
"""How Sphinx makes a site of the documents: `make site`.

Not in here: the pages, which are the documents themselves, and those on the Python API, which pdoc makes (`make api`).

Read first: conf.py
"""
