/* SPDX-License-Identifier: BSD-2-Clause */
/* BearSSL includes it and needs nothing of it. */
