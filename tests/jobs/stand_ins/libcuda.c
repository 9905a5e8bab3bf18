// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVIDIA's libcuda.so.1, with the functions of cuda.h that gpubench calls. It computes nothing.
// STAND_IN_CUDA is the newest CUDA that it knows, STAND_IN_CUINIT the code with which it refuses to start.
#include "cards.h"

typedef int CUresult, CUdevice, CUdevice_attribute;
enum { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_INITIALIZED = 3, CUDA_ERROR_INVALID_DEVICE = 101 };
enum { COMPUTE_CAPABILITY_MAJOR = 75, COMPUTE_CAPABILITY_MINOR = 76 };

static int started;
// A process sees one instance of a card that is cut into some.
static int visible(void) { return card()->mig ? 1 : gpus(); }

static CUresult of(CUdevice device) {
    if (!started) return CUDA_ERROR_NOT_INITIALIZED;
    return device >= 0 && device < visible() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuGetErrorString(CUresult error, const char **string) {
    static const struct { CUresult code; const char *text; } known[] = {
        {CUDA_ERROR_NOT_INITIALIZED, "initialization error"},
        {100, "no CUDA-capable device is detected"},
        {CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
        {802, "system not yet initialized"},
        {803, "system has unsupported display driver / cuda driver combination"},
        {804, "forward compatibility was attempted on non supported HW"},
        {999, "unknown error"},
    };
    *string = NULL;
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        if (known[n].code == error) *string = known[n].text;
    return *string ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuInit(unsigned flags) {
    CUresult code = flags ? CUDA_ERROR_INVALID_VALUE : number("STAND_IN_CUINIT", CUDA_SUCCESS);
    started = !code;
    return code;
}

CUresult cuDriverGetVersion(int *version) {
    *version = number("STAND_IN_CUDA", 12080);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    *count = visible();
    return started ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return of(ordinal);
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    snprintf(name, (size_t)length, "%s%s", card()->name, card()->mig ? " MIG 1g.5gb" : "");
    return of(device);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    if (attribute != COMPUTE_CAPABILITY_MAJOR && attribute != COMPUTE_CAPABILITY_MINOR) return CUDA_ERROR_INVALID_VALUE;
    *value = attribute == COMPUTE_CAPABILITY_MAJOR ? card()->major : card()->minor;
    return of(device);
}

// CUDA may number cards in another order than NVML, which goes by the bus: here in the opposite one.
CUresult cuDeviceGetPCIBusId(char *address, int length, CUdevice device) {
    snprintf(address, (size_t)length, "0000:%02x:00.0", gpus() - device);
    return of(device);
}
