/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the core checks and runs calls of command streams, which only drivers of GPUs that have them know. */
#ifndef GRAMOPHONE_COMMAND_STREAMS_H
#define GRAMOPHONE_COMMAND_STREAMS_H

#ifdef GRAMOPHONE_COMMAND_STREAMS

/* Of an action that calls no stream: GR_STATUS_OK. Whether its operands are what they may be; judging the
 * stream, then calling it and waiting until it has ended. */
GR_INTERNAL enum gr_status gr_check_stream(const struct gr_replayer *r, const struct gr_action *a);
GR_INTERNAL enum gr_status gr_run_stream(struct gr_replayer *r, const struct gr_action *a);

#else

#define gr_check_stream(r, a) GR_STATUS_OK /* its opcode is unknown */
#define gr_run_stream(r, a) GR_STATUS_OK

#endif

#endif
