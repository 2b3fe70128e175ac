/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recorder for a real board: a library that is preloaded into an unprivileged program (LD_PRELOAD) and sees
 * its ioctls to Linux's v3d driver. It writes the capture that the recorder in the virtual GPU writes
 * ($GRAMOPHONE_CAPTURE, docs/FORMAT-CAPTURE.md), by the same code: this file takes the virtual GPU's place
 * below recorder.c, with the program's buffers as GPU memory and v3d_driver.c for the registers.
 *
 * Every job is waited for, so that memory before and after it can be told apart. What the last compute job
 * leaves in memory goes to $GRAMOPHONE_CAPTURE.memory (buffers: GPU address, bytes, content), for outputs to
 * be found in it. What goes wrong is said on standard error and leaves no capture; the program goes on as it
 * would. Source: Linux 6.1 and 6.12, include/uapi/drm/v3d_drm.h.
 */
#include <dlfcn.h>
#include <drm/drm.h>
#include <drm/v3d_drm.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "recorder.h"
#include "v3d_buffers.h"
#include "v3d_driver.h"
#include "v3d_register_map.h"

enum {
    SUBMIT_CPU = 0x0b, /* DRM_V3D_SUBMIT_CPU, since Linux 6.8 */
};

/* For one job: the driver resets the GPU after half a second without progress. */
#define WAIT_NS 60000000000ull

static struct vgpu the_gpu;
static struct recorder *recorder;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int (*next_ioctl)(int, unsigned long, ...);

static void fail(const char *what)
{
    if (the_gpu.error)
        return;
    the_gpu.error = what;
    fprintf(stderr, "gramophone: nothing is recorded: %s\n", what);
}

static uint64_t now_ns(void *ctx)
{
    struct timespec now;

    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* An identity, and whether the driver gave it. */
static bool parameter(int fd, uint32_t which, uint32_t *value)
{
    struct drm_v3d_get_param param = {.param = which};

    if (next_ioctl(fd, DRM_IOCTL_V3D_GET_PARAM, &param))
        return false;
    *value = (uint32_t)param.value;
    return true;
}

/* Begin with the first thing that a program asks of the driver. */
static void start(int fd)
{
    const char *path = getenv("GRAMOPHONE_CAPTURE"), *error;
    const struct vgpu_host host = {.ctx = &the_gpu, .memory = v3d_buffers_at};
    struct v3d_identity identity;

    if (!path) {
        fail("GRAMOPHONE_CAPTURE does not name the file to write");
        return;
    }
    if (!parameter(fd, DRM_V3D_PARAM_V3D_HUB_IDENT1, &identity.hub_ident1) ||
        !parameter(fd, DRM_V3D_PARAM_V3D_HUB_IDENT3, &identity.hub_ident3)) {
        fail("the driver does not tell the GPU's identity");
        return;
    }
    if ((identity.hub_ident1 & 0xff) != 0x24) {
        fail("the GPU is no V3D 4.2");
        return;
    }
    recorder = recorder_open(path, "v3d42", &the_gpu, &host, now_ns, NULL, &error);
    if (!recorder)
        fail(error);
    else
        v3d_driver_probe(&the_gpu.observer, &identity);
}

static void created(int fd, const struct drm_v3d_create_bo *created)
{
    struct drm_v3d_mmap_bo place = {.handle = created->handle};
    uint32_t bytes = (created->size + V3D_PAGE_BYTES - 1) & ~(uint32_t)(V3D_PAGE_BYTES - 1);

    if (!recorder && !the_gpu.error)
        start(fd);
    if (the_gpu.error)
        return;
    if (created->handle >= V3D_MAX_HANDLES) {
        fail("too many buffers");
        return;
    }
    struct buffer *buffer = &the_gpu.buffers[created->handle];
    if (buffer->bytes) {
        fail("the program opened the GPU twice");
        return;
    }
    if (bytes == 0 || bytes > V3D_MEMORY_END - V3D_MEMORY_BASE ||
        created->offset > V3D_MEMORY_END - V3D_MEMORY_BASE - bytes) {
        fail("a buffer above 2 GiB of GPU addresses");
        return;
    }
    if (next_ioctl(fd, DRM_IOCTL_V3D_MMAP_BO, &place)) {
        fail("DRM_IOCTL_V3D_MMAP_BO failed");
        return;
    }
    void *host = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)place.offset);
    if (host == MAP_FAILED) {
        fail("a buffer cannot be mapped");
        return;
    }
    *buffer = (struct buffer){created->offset, bytes, host};
    if (created->handle >= the_gpu.handles)
        the_gpu.handles = created->handle + 1;
    v3d_driver_flush_tables(&the_gpu.observer);
}

/* The program gives the buffer back: it is mapped no longer. */
static void closing(const struct drm_gem_close *close)
{
    struct buffer *buffer = close->handle < V3D_MAX_HANDLES ? &the_gpu.buffers[close->handle] : NULL;

    if (!buffer || !buffer->bytes)
        return;
    munmap((void *)(uintptr_t)buffer->host, buffer->bytes);
    *buffer = (struct buffer){0};
    if (recorder)
        v3d_driver_flush_tables(&the_gpu.observer);
}

static void asked(int fd, const struct drm_v3d_get_param *param)
{
    static const uint32_t registers[] = {
        [DRM_V3D_PARAM_V3D_UIFCFG] = V3D_HUB + HUB_UIFCFG,
        [DRM_V3D_PARAM_V3D_HUB_IDENT1] = V3D_HUB + HUB_IDENT1,
        [DRM_V3D_PARAM_V3D_HUB_IDENT2] = V3D_HUB + HUB_IDENT2,
        [DRM_V3D_PARAM_V3D_HUB_IDENT3] = V3D_HUB + HUB_IDENT3,
        [DRM_V3D_PARAM_V3D_CORE0_IDENT0] = CORE_CTL_IDENT0,
        [DRM_V3D_PARAM_V3D_CORE0_IDENT1] = CORE_CTL_IDENT1,
        [DRM_V3D_PARAM_V3D_CORE0_IDENT2] = CORE_CTL_IDENT2,
    };

    if (!recorder && !the_gpu.error)
        start(fd);
    if (recorder && param->param < sizeof registers / sizeof registers[0])
        v3d_driver_read(&the_gpu.observer, registers[param->param], (uint32_t)param->value);
}

/* Until no job uses the buffers any more. */
static void wait_for(int fd, uint64_t list, uint32_t count)
{
    const uint32_t *handles = (const uint32_t *)(uintptr_t)list;

    for (uint32_t i = 0; i < count && !the_gpu.error; i++) {
        struct drm_v3d_wait_bo wait = {.handle = handles[i], .timeout_ns = WAIT_NS};

        if (next_ioctl(fd, DRM_IOCTL_V3D_WAIT_BO, &wait))
            fail("a job did not end within a minute, or waits for one that is still to come");
    }
}

static int submit_compute(int fd, struct drm_v3d_submit_csd *job)
{
    wait_for(fd, job->bo_handles, job->bo_handle_count);
    if (recorder && !the_gpu.error)
        v3d_driver_start_compute(&the_gpu.observer, job->cfg);
    int status = next_ioctl(fd, DRM_IOCTL_V3D_SUBMIT_CSD, job), error = errno;
    if (status)
        fail("the driver refused a compute job");
    wait_for(fd, job->bo_handles, job->bo_handle_count);
    if (recorder && !the_gpu.error) {
        v3d_driver_end_compute(&the_gpu.observer);
        the_gpu.counters.jobs++;
        if (!v3d_buffers_keep(&the_gpu))
            fail("out of memory");
    }
    errno = error;
    return status;
}

/* Both lists of a job run before this can look at memory: what the first changes counts as the second's. */
static int submit_lists(int fd, struct drm_v3d_submit_cl *job)
{
    const struct v3d_lists lists = {job->bcl_start, job->bcl_end, job->rcl_start, job->rcl_end,
                                    job->qma,       job->qms,     job->qts};
    bool bins = job->bcl_start != job->bcl_end;

    wait_for(fd, job->bo_handles, job->bo_handle_count);
    if (recorder && !the_gpu.error && bins) {
        v3d_driver_start_bin(&the_gpu.observer, &lists);
        v3d_driver_end_bin(&the_gpu.observer);
    }
    if (recorder && !the_gpu.error)
        v3d_driver_start_render(&the_gpu.observer, &lists);
    int status = next_ioctl(fd, DRM_IOCTL_V3D_SUBMIT_CL, job), error = errno;
    if (status)
        fail("the driver refused a render job");
    wait_for(fd, job->bo_handles, job->bo_handle_count);
    if (recorder && !the_gpu.error) {
        v3d_driver_end_render(&the_gpu.observer);
        the_gpu.counters.list_jobs += 1 + bins;
    }
    errno = error;
    return status;
}

static int recorded(int fd, unsigned long request, void *argument)
{
    if (request == DRM_IOCTL_V3D_SUBMIT_CSD)
        return submit_compute(fd, argument);
    if (request == DRM_IOCTL_V3D_SUBMIT_CL)
        return submit_lists(fd, argument);
    if (request == DRM_IOCTL_GEM_CLOSE)
        closing(argument);
    int status = next_ioctl(fd, request, argument), error = errno;
    if (status == 0 && request == DRM_IOCTL_V3D_CREATE_BO)
        created(fd, argument);
    if (status == 0 && request == DRM_IOCTL_V3D_GET_PARAM)
        asked(fd, argument);
    if (request == DRM_IOCTL_V3D_SUBMIT_TFU ||
        (_IOC_TYPE(request) == DRM_IOCTL_BASE && _IOC_NR(request) == DRM_COMMAND_BASE + SUBMIT_CPU))
        fail("a job of a kind that is not recorded: of the texture formatting unit, or for the CPU");
    errno = error;
    return status;
}

static bool matters(unsigned long request)
{
    static const unsigned commands[] = {
        DRM_V3D_SUBMIT_CL,  DRM_V3D_CREATE_BO,  DRM_V3D_GET_PARAM,
        DRM_V3D_SUBMIT_TFU, DRM_V3D_SUBMIT_CSD, SUBMIT_CPU,
    };

    if (_IOC_TYPE(request) != DRM_IOCTL_BASE)
        return false;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (_IOC_NR(request) == DRM_COMMAND_BASE + commands[i])
            return true;
    return request == DRM_IOCTL_GEM_CLOSE;
}

static void find_next(void)
{
    *(void **)&next_ioctl = dlsym(RTLD_NEXT, "ioctl");
}

/* Takes the C library's place. Jobs are waited for under the lock: other threads' jobs and buffers wait, too.
 */
__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
    va_list arguments;

    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    pthread_once(&once, find_next);
    if (!matters(request))
        return next_ioctl(fd, request, argument); /* not under the lock: some wait for jobs to come */
    pthread_mutex_lock(&lock);
    int status = recorded(fd, request, argument), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return status;
}

static void write_left(const char *capture)
{
    char *path;

    if (asprintf(&path, "%s.memory", capture) < 0) {
        fail("out of memory");
        return;
    }
    if (!v3d_buffers_write(&the_gpu, path))
        fail(strerror(errno));
    free(path);
}

__attribute__((destructor)) static void finish(void)
{
    const char *error;

    pthread_mutex_lock(&lock);
    if (recorder && !the_gpu.error)
        write_left(getenv("GRAMOPHONE_CAPTURE"));
    if (recorder && !recorder_close(recorder, &error))
        fail(error);
    recorder = NULL;
    v3d_buffers_forget(&the_gpu);
    pthread_mutex_unlock(&lock);
}
