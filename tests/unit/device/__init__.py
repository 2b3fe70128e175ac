# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone-tee`, which runs on devices."""
