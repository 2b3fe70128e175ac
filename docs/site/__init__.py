# SPDX-License-Identifier: BSD-2-Clause
"""How Sphinx makes a site of the documents as they are, with a navigation, for `make site`.

Not in here: the pages, which are the documents themselves, and those on the Python API, by pdoc (`make api`).

Read first: conf.py
"""
