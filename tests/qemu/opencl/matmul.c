/* SPDX-License-Identifier: BSD-2-Clause */
/* A product of two matrices of float32, and one more, by OpenCL: matmul ROWS INNER COLUMNS A B C, with the
 * kernels of matmul.cl; reads the files A and B and writes C. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

#include "../program.h"

static void check(cl_int status, const char *what)
{
    if (status != CL_SUCCESS)
        fail("%s: %d", what, status);
}

static cl_program program_of(cl_context context, cl_device_id device)
{
    size_t size;
    cl_int status;
    const char *source = content("matmul.cl", &size);
    cl_program program = clCreateProgramWithSource(context, 1, &source, &size, &status);
    check(status, "clCreateProgramWithSource");
    if (clBuildProgram(program, 1, &device, "", NULL, NULL) != CL_SUCCESS) {
        char log[4096] = "";
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        fail("%s", log);
    }
    return program;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        fail("usage: matmul ROWS INNER COLUMNS A B C");
    const cl_uint rows = (cl_uint)atoi(argv[1]), inner = (cl_uint)atoi(argv[2]),
                  columns = (cl_uint)atoi(argv[3]);
    const size_t sizes[3] = {rows * inner * sizeof(float), inner * columns * sizeof(float),
                             rows * columns * sizeof(float)};
    cl_platform_id platform;
    cl_device_id device;
    cl_int status;
    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 1, &device, NULL), "clGetDeviceIDs");
    char name[256] = "";
    check(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL), "clGetDeviceInfo");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    check(status, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, NULL, &status);
    check(status, "clCreateCommandQueueWithProperties");
    cl_program program = program_of(context, device);
    cl_kernel kernel = clCreateKernel(program, "matmul", &status);
    check(status, "clCreateKernel");
    cl_kernel plus_one = clCreateKernel(program, "plus_one", &status);
    check(status, "clCreateKernel");
    cl_mem buffers[3];
    for (cl_uint i = 0; i < 3; i++) {
        buffers[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, sizes[i], NULL, &status);
        check(status, "clCreateBuffer");
        if (i < 2) {
            size_t size;
            const char *data = content(argv[4 + i], &size);
            if (size != sizes[i])
                fail("%s: expected %zu bytes, found %zu", argv[4 + i], sizes[i], size);
            check(clEnqueueWriteBuffer(queue, buffers[i], CL_TRUE, 0, size, data, 0, NULL, NULL),
                  "clEnqueueWriteBuffer");
        }
        check(clSetKernelArg(kernel, i, sizeof(cl_mem), &buffers[i]), "clSetKernelArg");
    }
    check(clSetKernelArg(kernel, 3, sizeof inner, &inner), "clSetKernelArg");
    const size_t items[2] = {columns, rows}, group[2] = {8, 8};
    check(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, items, group, 0, NULL, NULL),
          "clEnqueueNDRangeKernel");
    check(clSetKernelArg(plus_one, 0, sizeof(cl_mem), &buffers[2]), "clSetKernelArg");
    check(clSetKernelArg(plus_one, 1, sizeof columns, &columns), "clSetKernelArg");
    check(clEnqueueNDRangeKernel(queue, plus_one, 2, NULL, items, group, 0, NULL, NULL),
          "clEnqueueNDRangeKernel");
    float *result = malloc(sizes[2]);
    if (!result)
        fail("no memory");
    check(clEnqueueReadBuffer(queue, buffers[2], CL_TRUE, 0, sizes[2], result, 0, NULL, NULL),
          "clEnqueueReadBuffer");
    FILE *file = fopen(argv[6], "wb");
    if (!file || fwrite(result, 1, sizes[2], file) != sizes[2] || fclose(file))
        fail("%s: cannot be written", argv[6]);
    printf("%s: done\n", name);
    return 0;
}
