// SPDX-License-Identifier: BSD-2-Clause
// Runs a plan on the first GPU that Vulkan offers: PLAN CONSTANTS TENSORS RESULT. In the recording guest it
// is the program that is recorded; on this machine, with Mesa's driver for the CPU, it judges what a compiler
// made. More such fours are more plans, one after the other, on one device, whose driver compiles equal
// kernels once; the memory of all stays until the end.
//
// PLAN is of 32-bit little-endian words, as host_tools/record/compiled/layout.py writes them. Its memories
// are constants, tensors, work, and any number of tables: constants and then tables begin as the file
// CONSTANTS, tensors as TENSORS, work as zeros. All pipelines exist before anything is submitted, so that no
// code reaches the GPU's memory after the first job; one submission has all calls.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

enum { CONSTANTS, TENSORS, WORK, TABLES };
enum { MAGIC = 0x4e4c5047, MAX_BINDINGS = 8, MAX_MEMORIES = 256, FILES = 4 };

static void die(const char *what, long found)
{
    fprintf(stderr, "runner: %s: %ld\n", what, found);
    exit(1);
}

static void check(VkResult result, const char *what)
{
    if (result != VK_SUCCESS) {
        die(what, result);
    }
}

static void *allocate(size_t count, size_t bytes)
{
    void *found = calloc(count ? count : 1, bytes);
    if (!found) {
        die("out of memory, bytes", (long)(count * bytes));
    }
    return found;
}

struct plan {
    uint32_t *words;
    size_t count, at;
};

static uint32_t next(struct plan *plan)
{
    if (plan->at >= plan->count) {
        die("plan ends early, at word", (long)plan->at);
    }
    return plan->words[plan->at++];
}

static struct plan read_plan(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        die("cannot read the plan", 0);
    }
    const long bytes = ftell(file);
    rewind(file);
    struct plan plan = {allocate((size_t)bytes / 4, 4), (size_t)bytes / 4, 0};
    if (fread(plan.words, 4, plan.count, file) != plan.count || next(&plan) != MAGIC) {
        die("no plan, bytes", bytes);
    }
    fclose(file);
    return plan;
}

struct memory {
    VkDeviceSize bytes;
    VkBuffer buffer;
    void *mapped;
};

struct gpu {
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
};

static VkBool32 has(VkPhysicalDevice physical, const char *extension)
{
    uint32_t count = 0;
    check(vkEnumerateDeviceExtensionProperties(physical, NULL, &count, NULL), "extensions");
    VkExtensionProperties *found = allocate(count, sizeof *found);
    check(vkEnumerateDeviceExtensionProperties(physical, NULL, &count, found), "extensions");
    VkBool32 is = VK_FALSE;
    for (uint32_t i = 0; i < count; i++) {
        is |= strcmp(found[i].extensionName, extension) == 0;
    }
    free(found);
    return is;
}

static struct gpu open_gpu(void)
{
    struct gpu gpu = {0};
    const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                           .apiVersion = VK_API_VERSION_1_1};
    const VkInstanceCreateInfo create = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                         .pApplicationInfo = &application};
    VkInstance instance;
    check(vkCreateInstance(&create, NULL, &instance), "no Vulkan");
    uint32_t one = 1;
    const VkResult found = vkEnumeratePhysicalDevices(instance, &one, &gpu.physical);
    if ((found != VK_SUCCESS && found != VK_INCOMPLETE) || one == 0) {
        die("no GPU", found);
    }
    VkPhysicalDeviceProperties properties;
    vkGetPhysicalDeviceProperties(gpu.physical, &properties);
    printf("%s\n", properties.deviceName);
    VkQueueFamilyProperties families[16];
    uint32_t count = 16;
    vkGetPhysicalDeviceQueueFamilyProperties(gpu.physical, &count, families);
    while (gpu.family < count && !(families[gpu.family].queueFlags & VK_QUEUE_COMPUTE_BIT)) {
        gpu.family++;
    }
    if (gpu.family == count) {
        die("no queue that computes, of", count);
    }
    VkPhysicalDevice8BitStorageFeatures bytes = {.sType =
                                                     VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES};
    VkPhysicalDevice16BitStorageFeatures halves = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, .pNext = &bytes};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                          .pNext = &halves};
    vkGetPhysicalDeviceFeatures2(gpu.physical, &features);
    memset(&features.features, 0, sizeof features.features);
    const char *extensions[] = {VK_KHR_8BIT_STORAGE_EXTENSION_NAME};
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = gpu.family,
        .queueCount = 1,
        .pQueuePriorities = &priority,
    };
    const VkDeviceCreateInfo device = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &features,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = has(gpu.physical, extensions[0]) ? 1 : 0,
        .ppEnabledExtensionNames = extensions,
    };
    check(vkCreateDevice(gpu.physical, &device, NULL, &gpu.device), "device");
    vkGetDeviceQueue(gpu.device, gpu.family, 0, &gpu.queue);
    return gpu;
}

// Memory of its own for each, which a driver makes one buffer object of: what is consecutive here is so for
// the GPU.
static struct memory open_memory(const struct gpu *gpu, uint32_t bytes)
{
    struct memory memory = {.bytes = bytes};
    const VkBufferCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = bytes ? bytes : 4,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT,
    };
    check(vkCreateBuffer(gpu->device, &create, NULL, &memory.buffer), "buffer");
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(gpu->device, memory.buffer, &needs);
    VkPhysicalDeviceMemoryProperties types;
    vkGetPhysicalDeviceMemoryProperties(gpu->physical, &types);
    const VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint32_t type = 0;
    while (type < types.memoryTypeCount && (!(needs.memoryTypeBits >> type & 1) ||
                                            (types.memoryTypes[type].propertyFlags & wanted) != wanted)) {
        type++;
    }
    if (type == types.memoryTypeCount) {
        die("no memory that the CPU sees, of types", type);
    }
    const VkMemoryAllocateInfo take = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = needs.size,
        .memoryTypeIndex = type,
    };
    VkDeviceMemory found;
    check(vkAllocateMemory(gpu->device, &take, NULL, &found), "memory");
    check(vkBindBufferMemory(gpu->device, memory.buffer, found, 0), "binding of memory");
    check(vkMapMemory(gpu->device, found, 0, VK_WHOLE_SIZE, 0, &memory.mapped), "mapping of memory");
    return memory;
}

static FILE *opened(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        die("cannot read constants or tensors", 0);
    }
    return file;
}

static void fill(struct memory *memory, FILE *file)
{
    const size_t found = memory->bytes ? fread(memory->mapped, 1, memory->bytes, file) : 0;
    if (found < memory->bytes) {
        die("constants or tensors end early, at byte", (long)found);
    }
}

struct kernel {
    uint32_t bindings;
    VkDescriptorSetLayout set;
    VkPipelineLayout layout;
    VkPipeline pipeline;
};

static struct kernel make_kernel(const struct gpu *gpu, struct plan *plan)
{
    struct kernel kernel = {.bindings = next(plan)};
    const uint32_t words = next(plan);
    if (kernel.bindings > MAX_BINDINGS || words > plan->count - plan->at) {
        die("a kernel with so many bindings, or longer than the plan", kernel.bindings);
    }
    VkDescriptorSetLayoutBinding bindings[MAX_BINDINGS];
    for (uint32_t i = 0; i < kernel.bindings; i++) {
        bindings[i] = (VkDescriptorSetLayoutBinding){i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                                                     VK_SHADER_STAGE_COMPUTE_BIT, NULL};
    }
    const VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = kernel.bindings,
        .pBindings = bindings,
    };
    check(vkCreateDescriptorSetLayout(gpu->device, &set, NULL, &kernel.set), "set layout");
    const VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &kernel.set,
    };
    check(vkCreatePipelineLayout(gpu->device, &layout, NULL, &kernel.layout), "pipeline layout");
    const VkShaderModuleCreateInfo code = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = (size_t)words * 4,
        .pCode = plan->words + plan->at,
    };
    plan->at += words;
    VkShaderModule module;
    check(vkCreateShaderModule(gpu->device, &code, NULL, &module), "shader");
    const VkComputePipelineCreateInfo pipeline = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main",
            },
        .layout = kernel.layout,
    };
    check(vkCreateComputePipelines(gpu->device, NULL, 1, &pipeline, NULL, &kernel.pipeline), "pipeline");
    return kernel;
}

static void add_call(const struct gpu *gpu, struct plan *plan, const struct kernel *kernels, uint32_t count,
                     const struct memory *memories, uint32_t memory_count, VkDescriptorPool pool,
                     VkCommandBuffer commands)
{
    const uint32_t number = next(plan);
    if (number >= count) {
        die("no such kernel", number);
    }
    const struct kernel *kernel = &kernels[number];
    const uint32_t x = next(plan), y = next(plan), z = next(plan);
    const VkDescriptorSetAllocateInfo take = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = pool,
        .descriptorSetCount = 1,
        .pSetLayouts = &kernel->set,
    };
    VkDescriptorSet set;
    check(vkAllocateDescriptorSets(gpu->device, &take, &set), "descriptor set");
    VkDescriptorBufferInfo views[MAX_BINDINGS];
    VkWriteDescriptorSet writes[MAX_BINDINGS];
    for (uint32_t i = 0; i < kernel->bindings; i++) {
        const uint32_t memory = next(plan), offset = next(plan), bytes = next(plan);
        if (memory >= memory_count || offset > memories[memory].bytes ||
            bytes > memories[memory].bytes - offset) {
            die("a binding outside of its memory, at", offset);
        }
        views[i] = (VkDescriptorBufferInfo){memories[memory].buffer, offset, bytes};
        writes[i] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = set,
            .dstBinding = i,
            .descriptorCount = 1,
            .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &views[i],
        };
    }
    vkUpdateDescriptorSets(gpu->device, kernel->bindings, writes, 0, NULL);
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
    };
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->layout, 0, 1, &set, 0, NULL);
    vkCmdDispatch(commands, x, y, z);
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         0, 1, &barrier, 0, NULL, 0, NULL);
}

static void submit(const struct gpu *gpu, VkCommandBuffer commands)
{
    const VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_HOST_READ_BIT,
    };
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                         &barrier, 0, NULL, 0, NULL);
    check(vkEndCommandBuffer(commands), "commands");
    const VkSubmitInfo all = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
    check(vkQueueSubmit(gpu->queue, 1, &all, VK_NULL_HANDLE), "submission");
    check(vkQueueWaitIdle(gpu->queue), "the GPU");
}

static void run(const struct gpu *gpu, char **files)
{
    struct plan plan = read_plan(files[0]);
    const uint32_t memory_count = next(&plan);
    if (memory_count < TABLES || memory_count > MAX_MEMORIES) {
        die("memories", memory_count);
    }
    struct memory memories[MAX_MEMORIES];
    for (uint32_t i = 0; i < memory_count; i++) {
        memories[i] = open_memory(gpu, next(&plan));
    }
    FILE *constants = opened(files[1]), *tensors = opened(files[2]);
    fill(&memories[CONSTANTS], constants);
    for (uint32_t i = TABLES; i < memory_count; i++) {
        fill(&memories[i], constants);
    }
    fill(&memories[TENSORS], tensors);
    fclose(constants);
    fclose(tensors);
    memset(memories[WORK].mapped, 0, memories[WORK].bytes);
    const uint32_t count = next(&plan), calls = next(&plan);
    struct kernel *kernels = allocate(count, sizeof *kernels);
    for (uint32_t i = 0; i < count; i++) {
        kernels[i] = make_kernel(gpu, &plan);
    }
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, (calls + 1) * MAX_BINDINGS};
    const VkDescriptorPoolCreateInfo create = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = calls + 1,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    VkDescriptorPool pool;
    check(vkCreateDescriptorPool(gpu->device, &create, NULL, &pool), "descriptor pool");
    const VkCommandPoolCreateInfo commands_of = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                                 .queueFamilyIndex = gpu->family};
    VkCommandPool command_pool;
    check(vkCreateCommandPool(gpu->device, &commands_of, NULL, &command_pool), "command pool");
    const VkCommandBufferAllocateInfo take = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = command_pool,
        .commandBufferCount = 1,
    };
    VkCommandBuffer commands;
    check(vkAllocateCommandBuffers(gpu->device, &take, &commands), "command buffer");
    const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    check(vkBeginCommandBuffer(commands, &begin), "command buffer");
    for (uint32_t i = 0; i < calls; i++) {
        add_call(gpu, &plan, kernels, count, memories, memory_count, pool, commands);
    }
    submit(gpu, commands);
    FILE *result = fopen(files[3], "wb");
    if (!result ||
        fwrite(memories[TENSORS].mapped, 1, memories[TENSORS].bytes, result) != memories[TENSORS].bytes ||
        fclose(result)) {
        die("cannot write the result, bytes", (long)memories[TENSORS].bytes);
    }
    free(kernels);
    free(plan.words);
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc % FILES != 1) {
        die("expected PLAN CONSTANTS TENSORS RESULT, found arguments", argc - 1);
    }
    const struct gpu gpu = open_gpu();
    for (int at = 1; at < argc; at += FILES) {
        run(&gpu, &argv[at]);
    }
    return 0;
}
