/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: the Linux port's command (tee_replayer/linux/main.c, gramophone_gpu.c) over a carve-out of
 * memory in place of UIO. An input: which call of the port fails, where the sample trace is damaged, and how
 * long its file is; the words of the command line, a line each, up to an empty one; then the file "in.npy".
 * Words have no "/": the command stays in a folder of its own.
 */
#include "device.h"
#include "gramophone_gpu.h"
#include "uio.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SETUP_BYTES = 6, WORDS = 600, MOST = 4096, CARVEOUT = 1 << 18 };

static uint8_t *carveout;
static uint32_t calls, fails_at;
static bool is_open;
static char folder[64], half[32]; /* half: how the name of a file that is being written ends */

int fuzzed_main(int argc, char **argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every call of the port may fail: the one with this number does, with a message. */
static bool works(const char *what)
{
    return ++calls != fails_at || gr_fail("%s", what);
}

bool gr_uio_open(void)
{
    PROMISE(!is_open, "the GPU is opened once");
    is_open = device_state.may_use = works("open");
    return is_open;
}

void gr_uio_close(void)
{
    PROMISE(is_open, "what is closed was open");
    is_open = device_state.may_use = false;
}

void gr_uio_carveout(uint64_t *physical, uint64_t *bytes)
{
    *physical = FUZZ_PHYS;
    *bytes = CARVEOUT;
}

uint8_t *gr_uio_map_carveout(uint64_t bytes)
{
    PROMISE(is_open && bytes <= CARVEOUT, "what there is of the carve-out is mapped");
    return works("map") ? carveout : NULL;
}

bool gr_may_give_back(bool *is_taken)
{
    *is_taken = true;
    return works("may");
}

bool gr_give_back(char driver[64])
{
    memcpy(driver, "v3d", 4);
    return works("give back");
}

int gramophone_gpu_take(char driver[64])
{
    driver[0] = '\0';
    return works("take") ? GRAMOPHONE_GPU_OK : GRAMOPHONE_GPU_FAILED;
}

/* Whether a word asks for more replays than there is time for. */
static bool is_many(const char *word)
{
    char *end;
    const unsigned long number = strtoul(word, &end, 10);
    return !*end && number > 20 && number <= UINT32_MAX;
}

static void write_file(const char *name, const void *data, size_t bytes)
{
    FILE *file = fopen(name, "wb");
    PROMISE(file && fwrite(data, 1, bytes, file) == bytes && !fclose(file), "files can be written");
}

/* Removes all files of the folder; how many of them the command wrote. Of these none may be half a file. */
static uint32_t remove_files(void)
{
    uint32_t written = 0;
    DIR *entries = opendir(".");
    PROMISE(entries, "the folder is there");
    for (const struct dirent *entry; (entry = readdir(entries));) {
        const char *end = strstr(entry->d_name, half);
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        PROMISE(!end || strcmp(end, half), "no half of a file is left");
        written += strcmp(entry->d_name, "trace") && strcmp(entry->d_name, "in.npy");
        unlink(entry->d_name);
    }
    closedir(entries);
    return written;
}

static void remove_folder(void)
{
    rmdir(folder);
}

static void start(void)
{
    carveout = mmap(NULL, CARVEOUT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    snprintf(folder, sizeof folder, "/dev/shm/gramophone-fuzz-%d", (int)getpid());
    snprintf(half, sizeof half, ".%d", (int)getpid());
    PROMISE(carveout != MAP_FAILED && !mkdir(folder, 0700) && !chdir(folder), "there is memory");
    atexit(remove_folder);
}

/* Takes the words off the input; how many, 0 where some are not for this target. */
static int take_words(const uint8_t **data, size_t *size, char *text, char **words)
{
    int count = 1;
    size_t used = 0;
    words[0] = "gramophone-gpu";
    while (*size) {
        const uint8_t *end = memchr(*data, '\n', *size);
        const size_t length = end ? (size_t)(end - *data) : *size;
        if (length && (count == WORDS || memchr(*data, '/', length) || memchr(*data, '\0', length)))
            return 0;
        if (length) {
            words[count] = memcpy(text + used, *data, length);
            text[used + length] = '\0';
            if (is_many(words[count]) || strstr(words[count], half))
                return 0;
            used += length + 1;
            count++;
        }
        const size_t step = length + (end ? 1 : 0);
        *data += step;
        *size -= step;
        if (!length)
            break;
    }
    words[count] = NULL;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[MOST + 1];
    static uint8_t trace[sizeof fuzz_trace];
    char *words[WORDS + 1], *said = NULL;
    size_t said_bytes = 0;
    if (!carveout)
        start();
    if (size < SETUP_BYTES || size > MOST)
        return 0;
    memset(&device_state, 0, sizeof device_state);
    memcpy(trace, fuzz_trace, sizeof trace);
    trace[(data[2] | (size_t)data[3] << 8) % sizeof trace] ^= data[1];
    const size_t less = data[4] | (size_t)data[5] << 8;
    calls = 0;
    fails_at = data[0];
    data += SETUP_BYTES;
    size -= SETUP_BYTES;
    const int count = take_words(&data, &size, text, words);
    if (!count)
        return 0;
    write_file("trace", trace, sizeof trace - (less < sizeof trace ? less : sizeof trace));
    write_file("in.npy", data, size);
    gr_fail("%s", "");
    FILE *const out = stdout, *const error = stderr;
    static FILE *nowhere;
    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    FILE *const told = open_memstream(&said, &said_bytes);
    PROMISE(nowhere && told, "there is memory");
    stdout = nowhere;
    stderr = told; /* a variable, in GNU's C library */
    const int status = fuzzed_main(count, words);
    stdout = out;
    stderr = error;
    fclose(told);
    PROMISE(status >= 0 && status <= 2, "the exit status is one of three");
    PROMISE(!status == !said_bytes, "what is not done is said, and nothing else");
    PROMISE(!is_open, "the GPU is closed");
    free(said);
    const uint32_t written = remove_files();
    PROMISE(status != 1 || !written, "what the replayer refuses leaves no output");
    uint8_t left = 0;
    for (size_t i = 0; i < CARVEOUT; i++)
        left |= carveout[i];
    PROMISE(!left, "the carve-out is wiped");
    return 0;
}
