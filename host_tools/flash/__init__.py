# SPDX-License-Identifier: BSD-2-Clause
"""Images for boards: packed from what `gramophone generate` wrote, read back and checked."""
