/* cpu_device.h: the back end that runs on the CPU's cores. */
#ifndef OPS_CPU_DEVICE_H
#define OPS_CPU_DEVICE_H

#include "base/thread_pool.h"
#include "ops/device.h"

/* A device over the pool (borrowed until cpu_device_free) with the kernels for these CPU features (base/cpu.h). */
enum mr_status cpu_device_create(struct device **out, struct thread_pool *pool, unsigned cpu_features, struct mr_error *err);
void cpu_device_free(struct device *device); /* takes NULL; all its buffers have been freed */

/* false: every op runs step by step, each over all rows, as a reference for what fusion brings. Before any model is opened. */
void cpu_device_set_fusion(struct device *device, bool on);

/* false: products take one row at a time and attention one query, as a reference for what tiles bring; the same results. */
void cpu_device_set_tiling(struct device *device, bool on);

/* The instruction set of its kernels: "scalar", "avx2", ... */
const char *cpu_device_isa(const struct device *device);

#endif
