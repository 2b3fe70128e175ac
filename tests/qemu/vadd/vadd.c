/* SPDX-License-Identifier: BSD-2-Clause */
/* Adds two arrays on the GPU with plain Vulkan, and checks the sum: a program to record.
 *
 *     vadd SHADER.spv [COUNT [TIMES]]
 *
 * One storage buffer holds a, b and their sum, COUNT floats each. a[i] = i / 2, b[i] = 1000 - i: every sum is
 * exact. They are added TIMES times, a submission each. Exit status: 0; 1 when a sum is wrong; 2 when
 * something on the way there failed. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vulkan/vulkan.h>

#define GROUP_SIZE 64u /* local_size_x of vadd.comp */
#define MAX_SHADER_BYTES 65536u
#define MAX_COUNT (1u << 20)

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

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

static void check(VkResult result, const char *what)
{
    if (result != VK_SUCCESS)
        fail("%s failed with VkResult %d", what, (int)result);
}

static VkPhysicalDevice first_device(VkInstance instance)
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

static uint32_t compute_family(VkPhysicalDevice device)
{
    VkQueueFamilyProperties families[8];
    uint32_t count = sizeof families / sizeof families[0];

    vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families);
    for (uint32_t i = 0; i < count; i++)
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)
            return i;
    fail("no queue for compute work");
}

static struct gpu open_gpu(void)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                     .pApplicationName = "vadd",
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

static uint32_t mappable_memory(VkPhysicalDevice device, uint32_t allowed)
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

static struct buffer make_buffer(const struct gpu *gpu, VkDeviceSize size)
{
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = size,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
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

static VkShaderModule read_shader(const struct gpu *gpu, const char *path)
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

static struct program make_program(const struct gpu *gpu, VkShaderModule shader)
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

static VkDescriptorSet bind_buffer(const struct gpu *gpu, const struct program *program,
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

static void dispatch(const struct gpu *gpu, const struct program *program, VkDescriptorSet set,
                     uint32_t groups, unsigned long times)
{
    VkCommandPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                         .queueFamilyIndex = gpu->family};
    VkCommandBufferAllocateInfo buffer_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                               .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                               .commandBufferCount = 1};
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkMemoryBarrier to_host = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1};
    VkCommandPool pool;
    VkCommandBuffer commands;

    check(vkCreateCommandPool(gpu->device, &pool_info, NULL, &pool), "vkCreateCommandPool");
    buffer_info.commandPool = pool;
    check(vkAllocateCommandBuffers(gpu->device, &buffer_info, &commands), "vkAllocateCommandBuffers");
    check(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, program->pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, program->layout, 0, 1, &set, 0, NULL);
    vkCmdDispatch(commands, groups, 1, 1);
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                         &to_host, 0, NULL, 0, NULL);
    check(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
    submit.pCommandBuffers = &commands;
    for (; times; times--) {
        check(vkQueueSubmit(gpu->queue, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
        check(vkQueueWaitIdle(gpu->queue), "vkQueueWaitIdle");
    }
}

static void fill(float *x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        x[i] = (float)i / 2.0f;
        x[count + i] = 1000.0f - (float)i;
        x[2 * count + i] = -1.0f;
    }
}

static uint32_t wrong_sums(const float *x, uint32_t count)
{
    uint32_t wrong = 0;

    for (uint32_t i = 0; i < count; i++)
        wrong += x[2 * count + i] != 1000.0f - (float)i / 2.0f;
    return wrong;
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    unsigned long times = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
    struct program program;
    struct buffer buffer;
    struct gpu gpu;
    uint32_t n, wrong;

    if (argc < 2 || argc > 4 || count < 1 || count > MAX_COUNT)
        fail("usage: vadd SHADER.spv [COUNT up to %u [TIMES]]", MAX_COUNT);
    n = (uint32_t)count;
    gpu = open_gpu();
    buffer = make_buffer(&gpu, 3 * n * sizeof(float));
    fill(buffer.data, n);
    program = make_program(&gpu, read_shader(&gpu, argv[1]));
    dispatch(&gpu, &program, bind_buffer(&gpu, &program, &buffer), (n + GROUP_SIZE - 1) / GROUP_SIZE, times);
    wrong = wrong_sums(buffer.data, n);
    printf("%u of %u sums are wrong\n", wrong, n);
    return wrong != 0;
}
