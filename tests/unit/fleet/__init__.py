# SPDX-License-Identifier: BSD-2-Clause
"""What `make` does: tasks, their graph, the store of results."""
