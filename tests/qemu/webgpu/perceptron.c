/* SPDX-License-Identifier: BSD-2-Clause */
/* A training step of a perceptron by WebGPU (wgpu-native), with the shaders of perceptron.wgsl: a program to
 * record.
 *
 *     perceptron
 *
 * Reads x.bin, t.bin, w1.bin and w2.bin, writes w1_next.bin, w2_next.bin and d.bin: float32 values. Exit
 * status: 0; 2 when something on the way failed. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../program.h"
#include "webgpu.h"
#include "wgpu.h"

enum { SAMPLES = 8, INPUTS = 16, HIDDEN = 32, OUTPUTS = 4, GROUP = 64, BUFFERS = 7 };

/* In the order of the bindings. */
static const struct {
    const char *in, *out; /* files; NULL: none */
    uint32_t count;
} ARRAYS[BUFFERS] = {
    {"x.bin", NULL, SAMPLES *INPUTS},
    {"t.bin", NULL, SAMPLES *OUTPUTS},
    {"w1.bin", "w1_next.bin", INPUTS *HIDDEN},
    {"w2.bin", "w2_next.bin", HIDDEN *OUTPUTS},
    {NULL, NULL, SAMPLES *HIDDEN},
    {NULL, "d.bin", SAMPLES *OUTPUTS},
    {NULL, NULL, SAMPLES *HIDDEN},
};

static const struct {
    const char *entry;
    uint32_t items;
} STEPS[] = {
    {"hidden", SAMPLES *HIDDEN}, {"output", SAMPLES *OUTPUTS}, {"gradient", SAMPLES *HIDDEN},
    {"learn1", INPUTS *HIDDEN},  {"learn2", HIDDEN *OUTPUTS},
};

static WGPUStringView view(const char *text)
{
    return (WGPUStringView){text, strlen(text)};
}

static void take_adapter(WGPURequestAdapterStatus status, WGPUAdapter adapter, WGPUStringView message,
                         void *to, void *unused)
{
    (void)unused;
    if (status != WGPURequestAdapterStatus_Success)
        fail("no adapter: %.*s", (int)message.length, message.data);
    *(WGPUAdapter *)to = adapter;
}

static void take_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void *to,
                        void *unused)
{
    (void)unused;
    if (status != WGPURequestDeviceStatus_Success)
        fail("no device: %.*s", (int)message.length, message.data);
    *(WGPUDevice *)to = device;
}

static void take_map(WGPUMapAsyncStatus status, WGPUStringView message, void *to, void *unused)
{
    (void)unused;
    if (status != WGPUMapAsyncStatus_Success)
        fail("a buffer cannot be mapped: %.*s", (int)message.length, message.data);
    *(bool *)to = true;
}

static WGPUDevice open_device(void)
{
    WGPUAdapter adapter = NULL;
    WGPUDevice device = NULL;
    WGPULimits limits = {0};
    WGPUInstance instance = wgpuCreateInstance(NULL);
    if (!instance)
        fail("no instance");
    wgpuInstanceRequestAdapter(instance, NULL,
                               (WGPURequestAdapterCallbackInfo){.mode = WGPUCallbackMode_AllowProcessEvents,
                                                                .callback = take_adapter,
                                                                .userdata1 = &adapter});
    if (!adapter || wgpuAdapterGetLimits(adapter, &limits) != WGPUStatus_Success)
        fail("no adapter");
    /* WebGPU's default limits are above those of a V3D 4.2. */
    const WGPUDeviceDescriptor what = {.requiredLimits = &limits};
    wgpuAdapterRequestDevice(adapter, &what,
                             (WGPURequestDeviceCallbackInfo){.mode = WGPUCallbackMode_AllowProcessEvents,
                                                             .callback = take_device,
                                                             .userdata1 = &device});
    if (!device)
        fail("no device");
    return device;
}

static WGPUBuffer new_buffer(WGPUDevice device, uint64_t bytes, WGPUBufferUsage usage)
{
    WGPUBuffer buffer =
        wgpuDeviceCreateBuffer(device, &(WGPUBufferDescriptor){.usage = usage, .size = bytes});
    if (!buffer)
        fail("no buffer of %llu bytes", (unsigned long long)bytes);
    return buffer;
}

static void write_result(WGPUDevice device, WGPUBuffer buffer, const char *path, size_t bytes)
{
    bool is_mapped = false;
    wgpuBufferMapAsync(buffer, WGPUMapMode_Read, 0, bytes,
                       (WGPUBufferMapCallbackInfo){.mode = WGPUCallbackMode_AllowProcessEvents,
                                                   .callback = take_map,
                                                   .userdata1 = &is_mapped});
    wgpuDevicePoll(device, true, NULL);
    const void *data = is_mapped ? wgpuBufferGetConstMappedRange(buffer, 0, bytes) : NULL;
    FILE *file = fopen(path, "wb");
    if (!data || !file || fwrite(data, 1, bytes, file) != bytes || fclose(file))
        fail("%s: cannot be written", path);
}

int main(void)
{
    size_t size;
    const char *text = content("perceptron.wgsl", &size);
    WGPUDevice device = open_device();
    WGPUQueue queue = wgpuDeviceGetQueue(device);
    WGPUBuffer buffers[BUFFERS], results[BUFFERS] = {0};
    WGPUBindGroupLayoutEntry layout[BUFFERS];
    WGPUBindGroupEntry entries[BUFFERS];
    for (uint32_t i = 0; i < BUFFERS; i++) {
        const size_t bytes = ARRAYS[i].count * sizeof(float);
        buffers[i] = new_buffer(device, bytes,
                                WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst | WGPUBufferUsage_CopySrc);
        layout[i] = (WGPUBindGroupLayoutEntry){.binding = i,
                                               .visibility = WGPUShaderStage_Compute,
                                               .buffer = {.type = WGPUBufferBindingType_Storage}};
        entries[i] = (WGPUBindGroupEntry){.binding = i, .buffer = buffers[i], .size = bytes};
        if (ARRAYS[i].in) {
            char *data = content(ARRAYS[i].in, &size);
            if (size != bytes)
                fail("%s: expected %zu bytes, found %zu", ARRAYS[i].in, bytes, size);
            wgpuQueueWriteBuffer(queue, buffers[i], 0, data, bytes);
            free(data);
        }
        if (ARRAYS[i].out)
            results[i] = new_buffer(device, bytes, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst);
    }
    WGPUShaderSourceWGSL wgsl = {.chain = {.sType = WGPUSType_ShaderSourceWGSL}, .code = view(text)};
    const WGPUShaderModuleDescriptor source = {.nextInChain = &wgsl.chain};
    WGPUShaderModule shaders = wgpuDeviceCreateShaderModule(device, &source);
    WGPUBindGroupLayout bindings = wgpuDeviceCreateBindGroupLayout(
        device, &(WGPUBindGroupLayoutDescriptor){.entryCount = BUFFERS, .entries = layout});
    WGPUPipelineLayout pipelines = wgpuDeviceCreatePipelineLayout(
        device, &(WGPUPipelineLayoutDescriptor){.bindGroupLayoutCount = 1, .bindGroupLayouts = &bindings});
    WGPUBindGroup group = wgpuDeviceCreateBindGroup(
        device, &(WGPUBindGroupDescriptor){.layout = bindings, .entryCount = BUFFERS, .entries = entries});
    WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder(device, NULL);
    WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass(encoder, NULL);
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
        const WGPUComputePipelineDescriptor what = {
            .layout = pipelines, .compute = {.module = shaders, .entryPoint = view(STEPS[i].entry)}};
        wgpuComputePassEncoderSetPipeline(pass, wgpuDeviceCreateComputePipeline(device, &what));
        wgpuComputePassEncoderSetBindGroup(pass, 0, group, 0, NULL);
        wgpuComputePassEncoderDispatchWorkgroups(pass, (STEPS[i].items + GROUP - 1) / GROUP, 1, 1);
    }
    wgpuComputePassEncoderEnd(pass);
    for (uint32_t i = 0; i < BUFFERS; i++)
        if (results[i])
            wgpuCommandEncoderCopyBufferToBuffer(encoder, buffers[i], 0, results[i], 0,
                                                 ARRAYS[i].count * sizeof(float));
    WGPUCommandBuffer commands = wgpuCommandEncoderFinish(encoder, NULL);
    wgpuQueueSubmit(queue, 1, &commands);
    for (uint32_t i = 0; i < BUFFERS; i++)
        if (results[i])
            write_result(device, results[i], ARRAYS[i].out, ARRAYS[i].count * sizeof(float));
    puts("done");
    return 0;
}
