/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of cudacore/pool.h. */
typedef struct cch_pool_config {
  size_t size;
  int32_t location_type;
  int32_t location_id;
  uint32_t handle_types;
  uint32_t reserved;
  uint64_t max_size;
} cch_pool_config;
int cch_pool_create(cch_pool **out, const cch_pool_config *config);
int cch_pool_current(cch_pool **out, int device);
int cch_pool_wrap(cch_pool **out, CUmemoryPool raw, int device, void *owner, cch_release_fn release);
int cch_pool_device(const cch_pool *pool);
cch_pool *cch_pool_ref(cch_pool *pool);
void cch_pool_unref(cch_pool *pool);
CUmemoryPool cch_pool_raw(const cch_pool *pool);
