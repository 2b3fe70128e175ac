/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Find speech in a WAV file, with Silero VAD in the secure world: vad VAD.sgtr SPEECH.wav
 *
 * Prints the start and the end of each stretch of speech, in seconds, as soon as it has ended. The network
 * hears 32 ms a replay. What it remembers is state, which stays in the secure world: this program gives
 * samples and gets probabilities. docs/YOUR-MODEL.md has the commands that make the trace and compile this
 * file.
 *
 * Exit status 0: speech; 1: none; 2: an error.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gramophone_tee.h"

/* Samples: a second, of a chunk, and of the chunk before that the network hears again. */
enum { RATE = 16000, CHUNK = 512, CONTEXT = 64 };
/* Samples: the least silence that ends speech, the least speech, and what is added at both ends. These and
 * the probabilities are the defaults of get_speech_timestamps in Silero's package. */
enum { SILENCE = RATE / 10, SPEECH = RATE / 4, PAD = RATE * 3 / 100 };
static const float STARTS = 0.5f, ENDS = 0.35f;

struct network {
    struct gramophone_tee *tee;
    uint32_t input, output; /* slots */
    float heard[CONTEXT + CHUNK];
};

/* Where in the sound the listener is; all in samples. */
struct listener {
    uint32_t now, start, quiet_from;
    bool speech, quiet;
    unsigned found;
};

static void check(const char *what, uint32_t result)
{
    if (result) {
        fprintf(stderr, "error: %s: %s (%#x)\n", what, gramophone_tee_text(result), (unsigned)result);
        exit(2);
    }
}

static void refuse(const char *path, const char *what)
{
    fprintf(stderr, "error: %s: %s\n", path, what);
    exit(2);
}

static void read_exactly(FILE *file, const char *path, void *data, size_t bytes)
{
    if (fread(data, 1, bytes, file) != bytes)
        refuse(path, "expected more data, found the end of the file");
}

static FILE *opened(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        refuse(path, strerror(errno));
    return file;
}

static uint32_t number(const uint8_t *data, unsigned bytes)
{
    uint32_t value = 0;
    while (bytes--)
        value = value << 8 | data[bytes];
    return value;
}

static void check_format(const char *path, const uint8_t format[16])
{
    const uint32_t kind = number(format, 2), channels = number(format + 2, 2);
    const uint32_t rate = number(format + 4, 4), bits = number(format + 14, 2);
    if (kind == 1 && channels == 1 && rate == RATE && bits == 16)
        return;
    fprintf(
        stderr,
        "error: %s: sound: expected format 1 (PCM), 1 channel, %d Hz, 16 bits, found format %u, %u channels, "
        "%u Hz, %u bits\nConvert it: ffmpeg -i IN.wav -ac 1 -ar %d -c:a pcm_s16le OUT.wav\n",
        path, RATE, (unsigned)kind, (unsigned)channels, (unsigned)rate, (unsigned)bits, RATE);
    exit(2);
}

/* Go to a WAV file's samples; how many there are. */
static uint32_t find_samples(FILE *file, const char *path)
{
    uint8_t head[12], chunk[8], format[16];
    bool known = false;
    read_exactly(file, path, head, sizeof head);
    if (memcmp(head, "RIFF", 4) || memcmp(head + 8, "WAVE", 4))
        refuse(path, "expected a WAV file, found none");
    for (;;) {
        read_exactly(file, path, chunk, sizeof chunk);
        uint32_t bytes = number(chunk + 4, 4);
        if (!memcmp(chunk, "data", 4)) {
            if (!known)
                refuse(path, "expected a chunk 'fmt ' before 'data', found none");
            return bytes / 2;
        }
        if (!memcmp(chunk, "fmt ", 4) && bytes >= sizeof format) {
            read_exactly(file, path, format, sizeof format);
            check_format(path, format);
            known = true;
            bytes -= (uint32_t)sizeof format;
        }
        if (bytes >= INT32_MAX)
            refuse(path, "expected a chunk of less than 2 GiB, found more");
        if (fseek(file, (long)(bytes + (bytes & 1)), SEEK_CUR))
            refuse(path, "expected a file, found a pipe");
    }
}

/* The slot of this name and size. */
static uint32_t slot_of(struct gramophone_tee *tee, const char *path, const char *name, uint64_t bytes)
{
    struct gramophone_slot slot;
    uint32_t count;
    check("slots", gramophone_tee_slot_count(tee, &count, NULL));
    for (uint32_t i = 0; i < count; i++) {
        check("slots", gramophone_tee_slot(tee, i, &slot, NULL));
        if (!strcmp(slot.name, name) && slot.bytes == bytes)
            return i;
    }
    fprintf(stderr, "error: %s: slots: expected '%s' of %u bytes, found none\n", path, name, (unsigned)bytes);
    exit(2);
}

/* A device for development lets any client call the pseudo-TA; others call GRAMOPHONE_TEE_VIA_TA. */
static void load(struct network *network, const char *path)
{
    FILE *file = opened(path);
    long bytes = -1;
    void *trace = NULL;
    if (!fseek(file, 0, SEEK_END) && (bytes = ftell(file)) > 0 && !fseek(file, 0, SEEK_SET))
        trace = malloc((size_t)bytes);
    if (!trace)
        refuse(path, "expected a signed trace, found nothing that can be read");
    read_exactly(file, path, trace, (size_t)bytes);
    fclose(file);
    check("session",
          gramophone_tee_open(&network->tee, GRAMOPHONE_TEE_VIA_PTA, GRAMOPHONE_TEE_LOGIN_PUBLIC, 0, NULL));
    check(path, gramophone_tee_load(network->tee, trace, (size_t)bytes, NULL));
    free(trace);
    network->input = slot_of(network->tee, path, "input", sizeof network->heard);
    network->output = slot_of(network->tee, path, "output", sizeof(float));
}

/* The probability of speech in the next chunk. */
static float hear(struct network *network, const int16_t samples[CHUNK])
{
    float probability;
    memmove(network->heard, network->heard + CHUNK, CONTEXT * sizeof(float));
    for (int i = 0; i < CHUNK; i++)
        network->heard[CONTEXT + i] = (float)samples[i] / 32768;
    check("input", gramophone_tee_set_input(network->tee, network->input, network->heard,
                                            sizeof network->heard, NULL));
    check("replay", gramophone_tee_run(network->tee, NULL));
    check("output",
          gramophone_tee_get_output(network->tee, network->output, &probability, sizeof probability, NULL));
    return probability;
}

/* Speech has ended: print it, unless it is short. */
static void end(struct listener *listener, uint32_t at, uint32_t pad)
{
    listener->speech = false;
    if (at - listener->start <= SPEECH)
        return;
    const uint32_t start = listener->start > PAD ? listener->start - PAD : 0;
    printf("%.3f %.3f\n", (double)start / RATE, (double)(at + pad) / RATE);
    fflush(stdout);
    listener->found++;
}

static void judge(struct listener *listener, float probability)
{
    if (probability >= STARTS) {
        if (!listener->speech)
            listener->start = listener->now;
        listener->speech = true;
        listener->quiet = false;
    } else if (probability < ENDS && listener->speech) {
        if (!listener->quiet)
            listener->quiet_from = listener->now;
        listener->quiet = true;
        if (listener->now - listener->quiet_from >= SILENCE)
            end(listener, listener->quiet_from, PAD);
    }
    listener->now += CHUNK;
}

int main(int argc, char **argv)
{
    struct network network = {0};
    struct listener listener = {0};
    if (argc != 3) {
        fprintf(stderr, "Usage: vad VAD.sgtr SPEECH.wav\n");
        return 2;
    }
    FILE *file = opened(argv[2]);
    const uint32_t count = find_samples(file, argv[2]);
    load(&network, argv[1]);
    for (uint32_t left = count, part; left; left -= part) {
        uint8_t bytes[2 * CHUNK] = {0}; /* the last chunk ends in silence */
        int16_t samples[CHUNK];
        part = left < CHUNK ? left : CHUNK;
        read_exactly(file, argv[2], bytes, 2 * (size_t)part);
        for (int i = 0; i < CHUNK; i++)
            samples[i] = (int16_t)number(bytes + 2 * i, 2);
        judge(&listener, hear(&network, samples));
    }
    if (listener.speech)
        end(&listener, count, 0);
    gramophone_tee_close(network.tee);
    fclose(file);
    return listener.found ? 0 : 1;
}
