/* SPDX-License-Identifier: BSD-2-Clause */
/* The command; its text is in `usage`. Exit status 0, 1 (refused by the replayer), 2 (wrong use, or something
 * is missing). */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gramophone_gpu.h"
#include "npy.h"
#include "sysfs.h"

static const char usage[] =
    "usage: gramophone-gpu take                 UIO gets the GPU from the kernel's driver (root)\n"
    "       gramophone-gpu give-back            the kernel's driver gets it back (root)\n"
    "       gramophone-gpu verify TRACE [--json]\n"
    "       gramophone-gpu replay TRACE [--input|--param SLOT=FILE.npy]... [--output SLOT=FILE.npy]...\n"
    "                             [--series SLOT=FILE.npy]... [--each SLOT=FILE.npy]... [--follow]\n"
    "                             [--network NAME] [--repeat N] [--json]\n"
    "Files of --series and --each have a value for each of the N replays, along their first dimension.\n"
    "--follow prints those of --each as they come, in hexadecimal.\n"
    "example: gramophone-gpu replay lenet.sgtr --input data=seven.npy --output prob=prob.npy\n";

enum { INPUT = 1, OUTPUT = 2, PARAMETER = 3, FILES = 256 };

struct file {
    uint8_t kind;
    bool has_all;     /* a value of each replay */
    const char *slot; /* with "=" and the path behind it */
    const char *path;
    struct gramophone_gpu_slot info;
    uint32_t index; /* the slot's */
    uint8_t *data;
};

struct request {
    const char *trace;
    const char *network; /* NULL: the first, or the only one */
    struct file files[FILES];
    size_t count;
    uint32_t repeat;
    bool replays, follows, json;
};

static int failed(int status)
{
    fprintf(stderr, "error: %s\n", gramophone_gpu_error());
    return status;
}

static bool parse_file(struct request *request, uint8_t kind, bool has_all, const char *text)
{
    const char *equals = text ? strchr(text, '=') : NULL;
    if (!equals || equals == text || !equals[1])
        return gr_fail("expected SLOT=FILE.npy, found %s", text ? text : "nothing");
    if (request->count == FILES)
        return gr_fail("expected at most %d files", FILES);
    request->files[request->count++] =
        (struct file){.kind = kind, .has_all = has_all, .slot = text, .path = equals + 1};
    return true;
}

static bool parse_repeat(struct request *request, const char *text)
{
    char *end = NULL;
    const unsigned long number = text ? strtoul(text, &end, 10) : 0;
    request->repeat = (uint32_t)number;
    return (end && *text >= '0' && *text <= '9' && !*end && number && number <= UINT32_MAX) ||
           gr_fail("--repeat: expected a number above 0, found %s", text ? text : "nothing");
}

static bool parse(struct request *request, char **words)
{
    for (; *words; words++) {
        const char *word = *words, *next = words[1];
        bool takes_next = request->replays, good = true;
        if (takes_next && !strcmp(word, "--input"))
            good = parse_file(request, INPUT, false, next);
        else if (takes_next && !strcmp(word, "--output"))
            good = parse_file(request, OUTPUT, false, next);
        else if (takes_next && !strcmp(word, "--param"))
            good = parse_file(request, PARAMETER, false, next);
        else if (takes_next && !strcmp(word, "--series"))
            good = parse_file(request, INPUT, true, next);
        else if (takes_next && !strcmp(word, "--each"))
            good = parse_file(request, OUTPUT, true, next);
        else if (takes_next && !strcmp(word, "--repeat"))
            good = parse_repeat(request, next);
        else if (takes_next && !strcmp(word, "--network"))
            good = (request->network = next) || gr_fail("--network: expected a name, found nothing");
        else {
            takes_next = false;
            if (!strcmp(word, "--json"))
                request->json = true;
            else if (request->replays && !strcmp(word, "--follow"))
                request->follows = true;
            else if (word[0] != '-' && !request->trace)
                request->trace = word;
            else
                return gr_fail("unknown argument %s", word);
        }
        if (!good)
            return false;
        words += takes_next;
    }
    return request->trace || gr_fail("no trace is named");
}

static uint32_t replays_in(const struct request *request, const struct file *file)
{
    return file->has_all ? request->repeat : 0;
}

/* Bind what a replay takes from a file or gives to it. */
static bool bind_data(const struct file *file, uint32_t replay)
{
    uint8_t *data = file->data + (file->has_all ? (size_t)file->info.bytes * replay : 0);
    return gramophone_gpu_bind(file->index, data, (size_t)file->info.bytes) == GRAMOPHONE_GPU_OK;
}

/* Find the slot that a file is for, and bind its data or room for it. */
static bool bind_file(const struct request *request, struct file *file)
{
    const uint32_t replays = replays_in(request, file);
    const size_t length = (size_t)(file->path - file->slot) - 1;
    for (uint32_t i = 0; i < gramophone_gpu_slot_count(); i++) {
        if (!gramophone_gpu_slot(i, &file->info) || file->info.kind != file->kind ||
            strlen(file->info.name) != length || memcmp(file->info.name, file->slot, length))
            continue;
        file->index = i;
        file->data = calloc(replays ? replays : 1, (size_t)file->info.bytes);
        if (!file->data)
            return gr_fail("slot %s: no memory for %" PRIu64 " bytes of each of %" PRIu32 " replays",
                           file->info.name, file->info.bytes, replays ? replays : 1);
        return (file->kind == OUTPUT || gr_npy_read(file->path, &file->info, replays, file->data)) &&
               bind_data(file, 0);
    }
    static const char *const kinds[] = {"slot", "input", "output", "parameter"};
    return gr_fail("the trace has no %s %.*s", kinds[file->kind], (int)length, file->slot);
}

/* Choose the network that is asked for by its name. */
static int choose(const char *name)
{
    struct gramophone_gpu_network info;
    for (uint32_t i = 0; gramophone_gpu_network(i, &info); i++)
        if (!strcmp(info.name, name))
            return gramophone_gpu_choose(i);
    return gr_fail("no network %s", name), GRAMOPHONE_GPU_FAILED;
}

/* Print what a replay gave to the files that have a value of each. */
static void print_outputs(const struct request *request, uint32_t replay)
{
    for (size_t i = 0; i < request->count; i++) {
        const struct file *file = &request->files[i];
        if (file->kind != OUTPUT || !file->has_all)
            continue;
        printf("replay %" PRIu32 " %s ", replay, file->info.name);
        for (size_t k = 0; k < file->info.bytes; k++)
            printf("%02x", file->data[file->info.bytes * replay + k]);
        putchar('\n');
    }
    fflush(stdout); /* whoever reads a pipe waits for it */
}

static int run(const struct request *request, uint32_t replay)
{
    for (size_t i = 0; i < request->count; i++)
        if (request->files[i].has_all && !bind_data(&request->files[i], replay))
            return GRAMOPHONE_GPU_FAILED;
    const int status = gramophone_gpu_run();
    if (status == GRAMOPHONE_GPU_OK && request->follows)
        print_outputs(request, replay);
    return status;
}

static int replay(struct request *request)
{
    if (request->network && choose(request->network) != GRAMOPHONE_GPU_OK)
        return GRAMOPHONE_GPU_FAILED;
    for (size_t i = 0; i < request->count; i++)
        if (!bind_file(request, &request->files[i]))
            return GRAMOPHONE_GPU_FAILED;
    int status = GRAMOPHONE_GPU_OK;
    for (uint32_t i = 0; i < request->repeat && status == GRAMOPHONE_GPU_OK; i++)
        status = run(request, i);
    for (size_t i = 0; i < request->count && status == GRAMOPHONE_GPU_OK; i++) {
        const struct file *file = &request->files[i];
        if (file->kind == OUTPUT &&
            !gr_npy_write(file->path, &file->info, replays_in(request, file), file->data))
            status = GRAMOPHONE_GPU_FAILED;
    }
    return status;
}

static void print_report(bool json)
{
    struct gramophone_gpu_report report;
    gramophone_gpu_report(&report);
    if (!json) {
        printf("jobs %" PRIu32 ", actions %" PRIu64 ", retries %" PRIu32 ", carve-out %" PRIu64
               " bytes, verified in "
               "%" PRIu64 " us, loaded in %" PRIu64 " us, replayed in %" PRIu64 " us\n",
               report.jobs, report.actions, report.retries, report.secure_bytes, report.verify_us,
               report.load_us, report.replay_us);
        return;
    }
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
#define ROW(name) {#name, report.name}
        ROW(status),       ROW(phase),     ROW(action),  ROW(op),        ROW(offset),
        ROW(expected),     ROW(seen),      ROW(retries), ROW(jobs),      ROW(actions),
        ROW(secure_bytes), ROW(verify_us), ROW(load_us), ROW(replay_us),
#undef ROW
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("%s\"%s\": %" PRIu64, i ? ", " : "{", rows[i].name, rows[i].value);
    puts("}");
}

/* Verify a trace, and replay it where that is asked for. */
static int serve(struct request *request)
{
    int status = gramophone_gpu_open();
    if (status != GRAMOPHONE_GPU_OK)
        return failed(status);
    status = gramophone_gpu_load_file(request->trace);
    if (status == GRAMOPHONE_GPU_OK && request->replays)
        status = replay(request);
    if (status == GRAMOPHONE_GPU_OK || (status == GRAMOPHONE_GPU_REFUSED && request->json))
        print_report(request->json);
    if (status != GRAMOPHONE_GPU_OK)
        failed(status);
    gramophone_gpu_close();
    for (size_t i = 0; i < request->count; i++)
        free(request->files[i].data);
    return status;
}

static int pass_on(int (*pass)(char driver[64]), const char *words)
{
    char driver[64];
    const int status = pass(driver);
    if (status != GRAMOPHONE_GPU_OK)
        return failed(status);
    printf("%s %s\n", words, driver[0] ? driver : "no driver");
    return 0;
}

int main(int argc, char **argv)
{
    struct request request = {.repeat = 1};
    const char *command = argc > 1 ? argv[1] : "";
    if (argc == 2 && !strcmp(command, "--help"))
        return fputs(usage, stdout) < 0;
    if (argc == 2 && !strcmp(command, "take"))
        return pass_on(gramophone_gpu_take, "the GPU was with");
    if (argc == 2 && !strcmp(command, "give-back"))
        return pass_on(gramophone_gpu_give_back, "the GPU is with");
    request.replays = !strcmp(command, "replay");
    if (!request.replays && strcmp(command, "verify")) {
        fputs(usage, stderr);
        return 2;
    }
    if (!parse(&request, argv + 2))
        return failed(2);
    /* A signal ends the program after the GPU is reset and the memory wiped; waits are bounded. */
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGHUP);
    sigprocmask(SIG_BLOCK, &ending, NULL);
    const int status = serve(&request);
    sigprocmask(SIG_UNBLOCK, &ending, NULL);
    return status;
}
