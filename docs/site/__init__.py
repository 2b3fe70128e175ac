# SPDX-License-Identifier: BSD-2-Clause
"""How Sphinx makes a site of the documents (`make site`); no page of its own."""
