// SPDX-License-Identifier: Apache-2.0
// Stand-ins, no product of NVIDIA's: the cards that libcuda.c and nvidia_ml.c pretend to be, as nvidia-smi shows them.
// The environment says which card (STAND_IN_CARD) and how many of it (STAND_IN_GPUS), each time that it is asked.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *key, *name;
    int major, minor;                              // compute capability
    unsigned mebibytes, watts;                     // memory, power limit
    unsigned sm, sm_max, memory_clock;             // MHz: application clocks (0: deprecated on it), highest ones
    int energy, can_mig, mig, lost;                // counter of energy; MIG mode; fallen off the bus
    unsigned long long ecc_errors;                 // that were not corrected, since it was made
} Card;

static const Card CARDS[] = {
    {"p100", "Tesla P100-PCIE-16GB", 6, 0, 16384, 250, 1189, 1328, 715, 0, 0, 0, 0, 0},
    {"t4", "Tesla T4", 7, 5, 15360, 70, 585, 1590, 5001, 1, 0, 0, 0, 0},
    {"a100", "NVIDIA A100-SXM4-40GB", 8, 0, 40960, 400, 1095, 1410, 1215, 1, 1, 0, 0, 0},
    {"a100-ecc", "NVIDIA A100-SXM4-40GB", 8, 0, 40960, 400, 1095, 1410, 1215, 1, 1, 0, 0, 37},
    {"a100-lost", "NVIDIA A100-SXM4-40GB", 8, 0, 40960, 400, 1095, 1410, 1215, 1, 1, 0, 1, 0},
    {"a100-mig", "NVIDIA A100-SXM4-40GB", 8, 0, 40960, 400, 1095, 1410, 1215, 1, 1, 1, 0, 0},
    {"h100", "NVIDIA H100 80GB HBM3", 9, 0, 81559, 700, 1980, 1980, 2619, 1, 1, 0, 0, 0},
    {"b200", "NVIDIA B200", 10, 0, 183359, 1000, 0, 1965, 3996, 1, 1, 0, 0, 0},
};

static inline const char *text(const char *variable, const char *otherwise) {
    const char *value = getenv(variable);
    return value ? value : otherwise;
}

static inline int number(const char *variable, int otherwise) {
    const char *value = getenv(variable);
    return value ? (int)strtol(value, NULL, 0) : otherwise;
}

static inline const Card *card(void) {
    for (size_t n = 0; n < sizeof CARDS / sizeof *CARDS; n++)
        if (!strcmp(CARDS[n].key, text("STAND_IN_CARD", "a100"))) return &CARDS[n];
    abort();
}

static inline int gpus(void) { return number("STAND_IN_GPUS", 1); }
