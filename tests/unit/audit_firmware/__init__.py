# SPDX-License-Identifier: BSD-2-Clause
"""What firmware is judged by."""
