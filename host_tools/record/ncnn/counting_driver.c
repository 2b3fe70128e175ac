/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A Vulkan driver that counts dispatches, which compute nothing, and copies. All else is done by the
 * driver in the environment's GRAMOPHONE_DRIVER. ncnn loads a driver itself, without Vulkan's loader,
 * so that a layer would not be seen.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

unsigned long gramophone_jobs(void);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(VkInstance instance, const char *name);

static PFN_vkGetInstanceProcAddr of_instance;
static PFN_vkGetDeviceProcAddr of_device;
static PFN_vkCmdCopyBuffer copy_buffer;
static PFN_vkGetPhysicalDeviceMemoryProperties memory_properties;
static PFN_vkGetPhysicalDeviceProperties2 properties;
static unsigned long jobs;

unsigned long gramophone_jobs(void)
{
    return jobs;
}

static VKAPI_ATTR void VKAPI_CALL count(VkCommandBuffer buffer, uint32_t x, uint32_t y, uint32_t z)
{
    (void)buffer, (void)x, (void)y, (void)z;
    jobs++;
}

static VKAPI_ATTR void VKAPI_CALL copy(VkCommandBuffer buffer, VkBuffer from, VkBuffer to, uint32_t regions,
                                       const VkBufferCopy *what)
{
    jobs++;
    copy_buffer(buffer, from, to, regions, what);
}

/* Memory as Mesa's drivers for V3D and Mali offer it, not cached: ncnn lets a job copy what it reads from
 * there. */
static VKAPI_ATTR void VKAPI_CALL uncached(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties *found)
{
    uint32_t i;

    memory_properties(device, found);
    for (i = 0; i < found->memoryTypeCount; i++)
        found->memoryTypes[i].propertyFlags &= ~(VkMemoryPropertyFlags)VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
}

/* Subgroups as Mesa's driver for V3D offers them, without arithmetic: ncnn sums in more steps. */
static VKAPI_ATTR void VKAPI_CALL plain(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *found)
{
    VkBaseOutStructure *next;

    properties(device, found);
    for (next = found->pNext; next; next = next->pNext) {
        if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES)
            ((VkPhysicalDeviceSubgroupProperties *)next)->supportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT;
    }
}

/* What stands for a function: `real` itself, unless it is one of the above. */
static PFN_vkVoidFunction instead(const char *name, PFN_vkVoidFunction real)
{
    if (!strcmp(name, "vkCmdDispatch"))
        return (PFN_vkVoidFunction)count;
    if (!strcmp(name, "vkCmdCopyBuffer")) {
        copy_buffer = (PFN_vkCmdCopyBuffer)real;
        return (PFN_vkVoidFunction)copy;
    }
    if (!strcmp(name, "vkGetPhysicalDeviceMemoryProperties")) {
        memory_properties = (PFN_vkGetPhysicalDeviceMemoryProperties)real;
        return (PFN_vkVoidFunction)uncached;
    }
    if (!strcmp(name, "vkGetPhysicalDeviceProperties2") ||
        !strcmp(name, "vkGetPhysicalDeviceProperties2KHR")) {
        properties = (PFN_vkGetPhysicalDeviceProperties2)real;
        return real ? (PFN_vkVoidFunction)plain : NULL;
    }
    return real;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char *name)
{
    return instead(name, of_device(device, name));
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(VkInstance instance, const char *name)
{
    if (!of_instance) {
        const char *path = getenv("GRAMOPHONE_DRIVER");
        void *driver = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        /* POSIX has no other way from an object to a function. */
        *(void **)&of_instance = driver ? dlsym(driver, "vk_icdGetInstanceProcAddr") : NULL;
        if (!of_instance)
            return NULL;
    }
    if (!strcmp(name, "vkGetInstanceProcAddr"))
        return (PFN_vkVoidFunction)vk_icdGetInstanceProcAddr;
    if (!strcmp(name, "vkGetDeviceProcAddr")) {
        of_device = (PFN_vkGetDeviceProcAddr)of_instance(instance, name);
        return (PFN_vkVoidFunction)device_function;
    }
    return instead(name, of_instance(instance, name));
}
