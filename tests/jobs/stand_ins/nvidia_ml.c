// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVIDIA's libnvidia-ml.so.1, with the functions of nvml.h that gpubench calls through nvidia-ml-py.
// STAND_IN_REFUSES names functions that the card does not support, STAND_IN_REASONS has the bits of the clocks' reasons.
#include "cards.h"

typedef enum {
    NVML_SUCCESS, NVML_ERROR_UNINITIALIZED, NVML_ERROR_INVALID_ARGUMENT, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE, NVML_ERROR_DRIVER_NOT_LOADED = 9, NVML_ERROR_GPU_IS_LOST = 15, NVML_ERROR_DEPRECATED = 26
} nvmlReturn_t;
typedef enum { NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM } nvmlClockType_t;
typedef enum { NVML_TEMPERATURE_GPU } nvmlTemperatureSensors_t;
typedef enum { NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED } nvmlMemoryErrorType_t;
typedef enum { NVML_VOLATILE_ECC, NVML_AGGREGATE_ECC } nvmlEccCounterType_t;
typedef struct nvmlDevice_st { int bus; } *nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;

#define RESERVED (512ULL << 20)  // by the driver, which nvidia-smi does not count as used
static int users;
static struct nvmlDevice_st devices[256];

// In the real library's order: not started, gone, not on this card.
static nvmlReturn_t asked(const char *function, nvmlDevice_t device, int supported) {
    if (!users) return NVML_ERROR_UNINITIALIZED;
    if (!device) return NVML_ERROR_INVALID_ARGUMENT;
    if (card()->lost) return NVML_ERROR_GPU_IS_LOST;
    return supported && !strstr(text("STAND_IN_REFUSES", ""), function) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

#define ANSWER(supported, ...) do { \
    nvmlReturn_t code = asked(__func__, device, supported); \
    if (code == NVML_SUCCESS) { __VA_ARGS__; } \
    return code; \
} while (0)

static nvmlReturn_t copied(const char *from, char *to, unsigned length) {
    if (length <= strlen(from)) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(to, from);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    if (flags) return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpus()) return NVML_ERROR_DRIVER_NOT_LOADED;
    users++;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void) {
    if (!users) return NVML_ERROR_UNINITIALIZED;
    users--;
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t code) {
    switch (code) {
        case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
        case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
        case NVML_ERROR_NOT_FOUND: return "Not Found";
        case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
        case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
        default: return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
    if (strstr(text("STAND_IN_REFUSES", ""), __func__)) return NVML_ERROR_NOT_SUPPORTED;
    return users ? copied("570.124.06", version, length) : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *device) {
    unsigned domain, bus;
    if (!users) return NVML_ERROR_UNINITIALIZED;
    if (sscanf(address, "%x:%x:0.0", &domain, &bus) != 2) return NVML_ERROR_INVALID_ARGUMENT;
    if (bus < 1 || bus > (unsigned)gpus() || (int)bus == number("STAND_IN_UNKNOWN_BUS", 0)) return NVML_ERROR_NOT_FOUND;
    devices[bus].bus = (int)bus;
    *device = &devices[bus];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    char own[64];
    ANSWER(1, {
        snprintf(own, sizeof own, "GPU-8eaaebb8-bb64-8489-fda2-0000000000%02x", device->bus);
        return copied(own, uuid, length);
    });
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    ANSWER(!card()->mig, *rates = ((nvmlUtilization_t){97, 40}));
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    unsigned long long total = (unsigned long long)card()->mebibytes << 20;
#ifdef BEFORE_535
    unsigned long long used = total / 4;
#else
    unsigned long long used = total / 4 + RESERVED;
#endif
    ANSWER(1, *memory = ((nvmlMemory_t){total, total - used, used}));
}

#ifndef BEFORE_535
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    unsigned long long total = (unsigned long long)card()->mebibytes << 20, used = total / 4;
    if (memory->version != (sizeof *memory | 2 << 24)) return NVML_ERROR_INVALID_ARGUMENT;
    ANSWER(1, *memory = ((nvmlMemory_v2_t){memory->version, total, RESERVED, total - used - RESERVED, used}));
}
#endif

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts) {
    ANSWER(1, *milliwatts = card()->watts * 1000 - 500);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *milliwatts) {
    ANSWER(1, *milliwatts = card()->watts * 1000);
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules) {
    ANSWER(card()->energy, *millijoules = 7000000);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned *celsius) {
    ANSWER(sensor == NVML_TEMPERATURE_GPU, *celsius = 64);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons) {
    ANSWER(1, *reasons = (unsigned long long)number("STAND_IN_REASONS", 0));
}

#ifndef BEFORE_535
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons) {
    ANSWER(1, *reasons = (unsigned long long)number("STAND_IN_REASONS", 0));
}
#endif

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    ANSWER(card()->can_mig, *current = *pending = (unsigned)card()->mig);
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t type, unsigned *megahertz) {
    if (!card()->sm) return NVML_ERROR_DEPRECATED;
    ANSWER(1, *megahertz = type == NVML_CLOCK_MEM ? card()->memory_clock : card()->sm);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *megahertz) {
    ANSWER(1, *megahertz = type == NVML_CLOCK_MEM ? card()->memory_clock : card()->sm_max);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(
    nvmlDevice_t device, nvmlMemoryErrorType_t error, nvmlEccCounterType_t counter, unsigned long long *count
) {
    ANSWER(1, *count = error == NVML_MEMORY_ERROR_TYPE_UNCORRECTED && counter == NVML_AGGREGATE_ECC ? card()->ecc_errors : 0);
}
