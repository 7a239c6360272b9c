/* SPDX-License-Identifier: Apache-2.0 */
/* What Python sees of cudacore/base.h. */
#define CCH_ABI_VERSION ...
#define CCH_VERSION ...
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef unsigned long long CUdeviceptr_v2;
typedef CUdeviceptr_v2 CUdeviceptr;
typedef struct _nvrtcProgram *nvrtcProgram;
typedef struct _nvvmProgram *nvvmProgram;
typedef struct cch_context cch_context;
typedef struct cch_stream cch_stream;
typedef struct cch_event cch_event;
typedef struct cch_pool cch_pool;
typedef struct cch_deviceptr cch_deviceptr;
typedef struct cch_library cch_library;
typedef struct cch_kernel cch_kernel;
typedef struct cch_nvrtc_program cch_nvrtc_program;
typedef struct cch_nvvm_program cch_nvvm_program;
typedef struct cch_bundle cch_bundle;
typedef enum cch_kind {
  CCH_KIND_CONTEXT = 0,
  CCH_KIND_STREAM = 1,
  CCH_KIND_EVENT = 2,
  CCH_KIND_POOL = 3,
  CCH_KIND_DEVICEPTR = 4,
  CCH_KIND_LIBRARY = 5,
  CCH_KIND_KERNEL = 6,
  CCH_KIND_NVRTC_PROGRAM = 7,
  CCH_KIND_NVVM_PROGRAM = 8,
  CCH_KIND_BUNDLE = 9,
  CCH_KIND_COUNT = 10
} cch_kind;
typedef void (*cch_release_fn)(void *owner);
uint32_t cch_version(void);
const char *cch_library_path(void);
size_t cch_live_count(int kind);
void *cch_ref(void *box);
void cch_unref(void *box);
int cch_kind_of(const void *box);
int cch_is_valid(const void *box);
