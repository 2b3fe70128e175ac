# SPDX-License-Identifier: BSD-2-Clause
"""What traces are judged by."""
