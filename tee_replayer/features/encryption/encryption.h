/* SPDX-License-Identifier: BSD-2-Clause */
/* Encrypted bodies: the loader opens one by a key that the head has for this device, the stream decrypts it.
 */
#ifndef GRAMOPHONE_ENCRYPTION_H
#define GRAMOPHONE_ENCRYPTION_H

#ifdef GRAMOPHONE_ENCRYPTION

#define GR_ENCRYPTION_FLAG GR_HEADER_FLAG_ENCRYPTED
#define GR_ENCRYPTION_STREAM_FIELDS                                                                          \
    const uint8_t *body_key; /* of the body that chunks are of, the replayer's; NULL: it is not encrypted */ \
    uint64_t opened;         /* blocks that were decrypted */

/* Have the stream decrypt the body, if it is encrypted, by a key that the message in the head, of `bytes`
 * bytes, has for one of the device's. Only called once the signature has been found good. Afterwards,
 * whatever has happened: nothing of the key stays, unless pieces of the body are still to be read. */
GR_INTERNAL enum gr_status gr_open_body(struct loader *l, const uint8_t *message, uint64_t bytes);
GR_INTERNAL void gr_close_body(struct loader *l);

/* Zero if each block was decrypted that the head, read anew, says is encrypted. The replayer keeps this
 * second answer for pieces. */
GR_INTERNAL uint32_t gr_undecrypted(const struct loader *l);

/* Decrypt a chunk that has been checked, by its number: one that is read again as it was the first time. */
GR_INTERNAL void gr_decrypt(struct gr_stream *s, uint32_t bytes);

/* Have a stream of a piece decrypt; not 0: of the `bytes` bytes that it has read, some are not decrypted. */
#define GR_OPEN_PIECE(r, s) ((s)->body_key = (r)->is_encrypted ? (r)->body_key : NULL)
#define GR_UNOPENED(r, s, bytes) ((s)->opened ^ (((bytes) + 15) / 16 & (r)->opens))

#else

#define GR_ENCRYPTION_FLAG 0u
#define GR_ENCRYPTION_STREAM_FIELDS
#define gr_open_body(...) GR_STATUS_OK
#define gr_close_body(l) ((void)0)
#define gr_undecrypted(l) 0u
#define gr_decrypt(s, bytes) ((void)0)
#define GR_OPEN_PIECE(r, s) ((void)0)
#define GR_UNOPENED(r, s, bytes) UINT64_C(0)

#endif

#endif
