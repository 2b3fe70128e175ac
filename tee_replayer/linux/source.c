/* SPDX-License-Identifier: BSD-2-Clause */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sysfs.h"

enum { ANSWER_S = 5 }; /* for a part */

/* What the thread and its asker share: they take turns, by the semaphores. The thread reads into memory of
 * its own, because an answer may come when nobody waits for it any more. */
struct reader {
    sem_t asked, answered;
    int file;
    bool is_over; /* nobody asks any more */
    uint64_t offset;
    uint32_t bytes;
    int error; /* of the answer: 0, an errno, or ENODATA where the file ends before */
    uint8_t data[GR_PART_BYTES];
};

static struct {
    struct reader *reader; /* NULL: there is none, or it gave no answer */
    pthread_t thread;
    const char *why; /* reading failed */
} source;

static int read_part(struct reader *r)
{
    for (uint32_t done = 0; done < r->bytes;) {
        const ssize_t count = pread(r->file, r->data + done, r->bytes - done, (off_t)(r->offset + done));
        if (!count)
            return ENODATA;
        if (count < 0)
            return errno;
        done += (uint32_t)count;
    }
    return 0;
}

static void *serve(void *context)
{
    struct reader *const r = context;
    for (;;) {
        while (sem_wait(&r->asked))
            ;
        if (r->is_over)
            break;
        r->error = read_part(r);
        sem_post(&r->answered);
    }
    close(r->file);
    sem_destroy(&r->asked);
    sem_destroy(&r->answered);
    free(r);
    return NULL;
}

/* No signal is for the thread: they end the program by way of the thread that replays. */
static int start(struct reader *reader)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int error = pthread_create(&source.thread, NULL, serve, reader);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

bool gr_source_open(const char *path, uint64_t *bytes)
{
    struct stat info;
    gr_source_close();
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return gr_fail("%s: %s", path, strerror(errno));
    struct reader *const reader = calloc(1, sizeof *reader);
    int error = reader ? 0 : ENOMEM;
    if (fstat(file, &info))
        error = errno;
    else if (!S_ISREG(info.st_mode) || !info.st_size)
        error = ENODATA;
    if (!error) {
        reader->file = file;
        sem_init(&reader->asked, 0, 0);
        sem_init(&reader->answered, 0, 0);
        error = start(reader);
    }
    if (error) {
        close(file);
        free(reader);
        return gr_fail("%s: %s", path,
                       error == ENODATA ? "expected a file with a signed trace, found none"
                                        : strerror(error));
    }
    source.reader = reader;
    source.why = "";
    *bytes = (uint64_t)info.st_size;
    return true;
}

/* Have the thread end; it frees what it has. */
static void end(bool waits)
{
    source.reader->is_over = true;
    sem_post(&source.reader->asked);
    if (waits)
        pthread_join(source.thread, NULL);
    else
        pthread_detach(source.thread);
    source.reader = NULL;
}

const uint8_t *gr_source_part(uint64_t offset, uint32_t bytes)
{
    struct timespec until;
    struct reader *const r = source.reader;
    int waited;
    if (!r || bytes > GR_PART_BYTES)
        return NULL;
    r->offset = offset;
    r->bytes = bytes;
    sem_post(&r->asked);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ANSWER_S;
    do
        waited = sem_clockwait(&r->answered, CLOCK_MONOTONIC, &until);
    while (waited && errno == EINTR);
    if (waited) {
        end(false);
        source.why = "the file gave no answer in time";
        return NULL;
    }
    if (r->error)
        source.why = r->error == ENODATA ? "the file ends before" : strerror(r->error);
    return r->error ? NULL : r->data;
}

const char *gr_source_error(void)
{
    return source.why;
}

void gr_source_close(void)
{
    if (source.reader)
        end(true);
}
