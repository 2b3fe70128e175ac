/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs to record share: a Vulkan device, a buffer that both sides see, a compute pipeline over one
 * buffer, commands. Whatever fails ends the program with status 2. */
#ifndef GRAMOPHONE_TESTS_GPU_H
#define GRAMOPHONE_TESTS_GPU_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vulkan/vulkan.h>

#include "../program.h"

#define GROUP_SIZE 64u /* local_size_x of vadd.comp */
#define MAX_SHADER_BYTES 65536u

struct gpu {
    VkDevice device;
    VkPhysicalDevice physical;
    VkQueue queue;
    uint32_t family;
};

struct buffer {
    VkBuffer handle;
    float *data;
    VkDeviceSize size;
};

struct program {
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipeline pipeline;
};

static inline void check(VkResult result, const char *what)
{
    if (result != VK_SUCCESS)
        fail("%s failed with VkResult %d", what, (int)result);
}

static inline VkPhysicalDevice first_device(VkInstance instance)
{
    VkPhysicalDevice device;
    uint32_t count = 1;
    VkResult result = vkEnumeratePhysicalDevices(instance, &count, &device);
    VkPhysicalDeviceProperties properties;

    if (result != VK_INCOMPLETE)
        check(result, "vkEnumeratePhysicalDevices");
    if (count == 0)
        fail("no Vulkan device");
    vkGetPhysicalDeviceProperties(device, &properties);
    printf("device: %s\n", properties.deviceName);
    return device;
}

static inline uint32_t compute_family(VkPhysicalDevice device)
{
    VkQueueFamilyProperties families[8];
    uint32_t count = sizeof families / sizeof families[0];

    vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families);
    for (uint32_t i = 0; i < count; i++)
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)
            return i;
    fail("no queue for compute work");
}

static inline struct gpu open_gpu(void)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .pApplicationName = "gramophone",
                                     .apiVersion = VK_API_VERSION_1_0};
    VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                          .pApplicationInfo = &application};
    float priority = 1.0f;
    VkDeviceQueueCreateInfo queue_info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                      .queueCreateInfoCount = 1,
                                      .pQueueCreateInfos = &queue_info};
    VkInstance instance;
    struct gpu gpu;

    check(vkCreateInstance(&instance_info, NULL, &instance), "vkCreateInstance");
    gpu.physical = first_device(instance);
    gpu.family = compute_family(gpu.physical);
    queue_info.queueFamilyIndex = gpu.family;
    check(vkCreateDevice(gpu.physical, &device_info, NULL, &gpu.device), "vkCreateDevice");
    vkGetDeviceQueue(gpu.device, gpu.family, 0, &gpu.queue);
    return gpu;
}

static inline uint32_t mappable_memory(VkPhysicalDevice device, uint32_t allowed)
{
    const VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkPhysicalDeviceMemoryProperties memory;

    vkGetPhysicalDeviceMemoryProperties(device, &memory);
    for (uint32_t i = 0; i < memory.memoryTypeCount; i++)
        if (allowed & 1u << i && (memory.memoryTypes[i].propertyFlags & wanted) == wanted)
            return i;
    fail("no memory that both sides see");
}

static inline struct buffer make_buffer(const struct gpu *gpu, VkDeviceSize size)
{
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = size,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    VkMemoryAllocateInfo memory_info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    VkMemoryRequirements needs;
    VkDeviceMemory memory;
    struct buffer buffer = {.size = size};
    void *data;

    check(vkCreateBuffer(gpu->device, &info, NULL, &buffer.handle), "vkCreateBuffer");
    vkGetBufferMemoryRequirements(gpu->device, buffer.handle, &needs);
    memory_info.allocationSize = needs.size;
    memory_info.memoryTypeIndex = mappable_memory(gpu->physical, needs.memoryTypeBits);
    check(vkAllocateMemory(gpu->device, &memory_info, NULL, &memory), "vkAllocateMemory");
    check(vkBindBufferMemory(gpu->device, buffer.handle, memory, 0), "vkBindBufferMemory");
    check(vkMapMemory(gpu->device, memory, 0, size, 0, &data), "vkMapMemory");
    buffer.data = data;
    return buffer;
}

static inline VkShaderModule read_shader(const struct gpu *gpu, const char *path)
{
    static uint32_t words[MAX_SHADER_BYTES / sizeof(uint32_t)];
    VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .pCode = words};
    VkShaderModule shader;
    FILE *file = fopen(path, "rb");

    if (!file)
        fail("%s: cannot be opened", path);
    info.codeSize = fread(words, 1, sizeof words, file);
    fclose(file);
    if (info.codeSize == 0 || info.codeSize % sizeof words[0])
        fail("%s: not a SPIR-V file", path);
    check(vkCreateShaderModule(gpu->device, &info, NULL, &shader), "vkCreateShaderModule");
    return shader;
}

static inline struct program make_program(const struct gpu *gpu, VkShaderModule shader)
{
    VkDescriptorSetLayoutBinding binding = {.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                            .descriptorCount = 1,
                                            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    VkDescriptorSetLayoutCreateInfo set_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                .bindingCount = 1,
                                                .pBindings = &binding};
    VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                              .setLayoutCount = 1};
    VkComputePipelineCreateInfo pipeline_info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = shader,
                  .pName = "main"}};
    struct program program;

    check(vkCreateDescriptorSetLayout(gpu->device, &set_info, NULL, &program.set_layout),
          "vkCreateDescriptorSetLayout");
    layout_info.pSetLayouts = &program.set_layout;
    check(vkCreatePipelineLayout(gpu->device, &layout_info, NULL, &program.layout), "vkCreatePipelineLayout");
    pipeline_info.layout = program.layout;
    check(vkCreateComputePipelines(gpu->device, VK_NULL_HANDLE, 1, &pipeline_info, NULL, &program.pipeline),
          "vkCreateComputePipelines");
    return program;
}

static inline VkDescriptorSet bind_buffer(const struct gpu *gpu, const struct program *program,
                                          const struct buffer *buffer)
{
    VkDescriptorPoolSize pool_size = {.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .descriptorCount = 1};
    VkDescriptorPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                            .maxSets = 1,
                                            .poolSizeCount = 1,
                                            .pPoolSizes = &pool_size};
    VkDescriptorSetAllocateInfo set_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                            .descriptorSetCount = 1,
                                            .pSetLayouts = &program->set_layout};
    VkDescriptorBufferInfo whole = {.buffer = buffer->handle, .range = buffer->size};
    VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                  .descriptorCount = 1,
                                  .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                  .pBufferInfo = &whole};
    VkDescriptorPool pool;

    check(vkCreateDescriptorPool(gpu->device, &pool_info, NULL, &pool), "vkCreateDescriptorPool");
    set_info.descriptorPool = pool;
    check(vkAllocateDescriptorSets(gpu->device, &set_info, &write.dstSet), "vkAllocateDescriptorSets");
    vkUpdateDescriptorSets(gpu->device, 1, &write, 0, NULL);
    return write.dstSet;
}

/* A command buffer that takes commands. */
static inline VkCommandBuffer begin_commands(const struct gpu *gpu)
{
    VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                         .queueFamilyIndex = gpu->family};
    VkCommandBufferAllocateInfo buffer_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                               .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                               .commandBufferCount = 1};
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkCommandPool pool;
    VkCommandBuffer commands;

    check(vkCreateCommandPool(gpu->device, &pool_info, NULL, &pool), "vkCreateCommandPool");
    buffer_info.commandPool = pool;
    check(vkAllocateCommandBuffers(gpu->device, &buffer_info, &commands), "vkAllocateCommandBuffers");
    check(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    return commands;
}

/* What comes after sees, on GPU and CPU, what came before. */
static inline void barrier(VkCommandBuffer commands)
{
    const VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT;
    VkMemoryBarrier memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                              .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                              .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT |
                                               VK_ACCESS_HOST_READ_BIT};

    vkCmdPipelineBarrier(commands, all, all, 0, 1, &memory, 0, NULL, 0, NULL);
}

/* The shader over the bound buffer, in groups of GROUP_SIZE. */
static inline void dispatch(VkCommandBuffer commands, const struct program *program, VkDescriptorSet set,
                            uint32_t items)
{
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, program->pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, program->layout, 0, 1, &set, 0, NULL);
    vkCmdDispatch(commands, (items + GROUP_SIZE - 1) / GROUP_SIZE, 1, 1);
    barrier(commands);
}

/* End the commands; execute them so often, each time to the end. */
static inline void submit(const struct gpu *gpu, VkCommandBuffer commands, unsigned long times)
{
    VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};

    check(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    for (; times; times--) {
        check(vkQueueSubmit(gpu->queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
        check(vkQueueWaitIdle(gpu->queue), "vkQueueWaitIdle");
    }
}

#endif
