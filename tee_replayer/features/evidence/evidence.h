/* SPDX-License-Identifier: BSD-2-Clause */
/* What the replay log is told, where there is one: calls of its functions. */
#ifndef GRAMOPHONE_EVIDENCE_H
#define GRAMOPHONE_EVIDENCE_H

#ifdef GRAMOPHONE_LOG
#include "tell.h"
#define GR_TELL(r, what) ((r)->log ? (what) : (void)0)
#define GR_TELL_BEGIN(r, policy)                                                                             \
    do {                                                                                                     \
        (r)->log = (policy)->log;                                                                            \
        GR_TELL(r, gr_log_begin((r)->log));                                                                  \
    } while (false)
#else
#define GR_TELL(r, what) ((void)0)
#define GR_TELL_BEGIN(r, policy) ((void)0)
#endif
#ifdef GRAMOPHONE_LOG_HASHES
#define GR_TELL_COPY(r, what) GR_TELL(r, what)
#else
#define GR_TELL_COPY(r, what) ((void)0)
#endif

#endif
