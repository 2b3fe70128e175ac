/* SPDX-License-Identifier: BSD-2-Clause */
/* The replay log that a policy and a replayer lead to. */
#ifndef GRAMOPHONE_EVIDENCE_API_H
#define GRAMOPHONE_EVIDENCE_API_H

#ifdef GRAMOPHONE_LOG
struct gr_log;
#define GR_EVIDENCE_FIELDS                                                                                   \
    struct gr_log *log; /* that is told what is loaded and replayed; NULL: none is kept */
#else
#define GR_EVIDENCE_FIELDS
#endif

#endif
