/* HybridOptimizer behind functions of C linkage, in the shared library ebb_hybrid: for C, and for
 * languages that load one and declare its functions themselves (tools/gpu_hybrid.py does so from
 * Python). It compiles as C99 and as C++. The contract of every call, threads and streams included,
 * is that of the method it is named after.
 *
 * Functions that return int return 0, or 1 for a failure whose text ebb_hybrid_error() gives, on
 * the same thread, until the next failure. No C++ exception leaves them.
 *
 * A struct starts with its size, which the caller sets to sizeof of the struct as its header
 * declares it. Later versions only add fields at a struct's end: a library reads and writes as
 * many as the caller's header has, the others are as if they had been left out. A size that the
 * library does not know is a failure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Of this header, and the shared library's SOVERSION: it changes where callers must be compiled
 * anew. ebb_hybrid_version() is that of the library which was loaded. */
#define EBB_HYBRID_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ebb_hybrid ebb_hybrid; /* an optimizer */

typedef struct ebb_hybrid_parameter {
  size_t struct_size; /* of a list all are of the same size */
  const char* name;
  void* weight;
  const void* gradient;
  int64_t count;
  int32_t weight_type; /* 0: bf16, 1: fp32 */
  int32_t gradient_type;
  int32_t decays;
  int64_t group; /* the index of its group in ebb_hybrid_step_groups */
} ebb_hybrid_parameter;

/* A number that is NaN, or a nesterov of -1, is as in the settings. */
typedef struct ebb_hybrid_group {
  size_t struct_size; /* of a list all are of the same size */
  double learning_rate;
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  double momentum;
  int64_t nesterov;
} ebb_hybrid_group;

typedef struct ebb_hybrid_report {
  size_t struct_size;
  int64_t step;
  double norm;
  double clip_factor;
  int64_t first_bad;
  int32_t applied;
} ebb_hybrid_report;

typedef struct ebb_hybrid_placement {
  size_t struct_size;
  int64_t device_bytes;
  int64_t host_bytes;
  int64_t resident_parameters;
  int64_t streamed_parameters;
  int64_t host_parameters;
} ebb_hybrid_placement;

int ebb_hybrid_version(void);
const char* ebb_hybrid_error(void);

/* `settings` is a JSON object of HybridOptimizer::Settings' fields by name, those of the rule
 * beside them: {"rule": "adamw", "weight_decay": 0.1, "states": "stream", "device": "cuda"}. Null
 * on failure. */
ebb_hybrid* ebb_hybrid_create(const char* settings, const ebb_hybrid_parameter* parameters,
                              int64_t count, void* stream);
void ebb_hybrid_destroy(ebb_hybrid* optimizer);

int ebb_hybrid_set_gradient(ebb_hybrid* optimizer, int64_t parameter, const void* gradient);
int ebb_hybrid_gradient_ready(ebb_hybrid* optimizer, int64_t parameter, void* stream);
int ebb_hybrid_leave_out(ebb_hybrid* optimizer, int64_t parameter);
int ebb_hybrid_discard(ebb_hybrid* optimizer);
/* `report` may be null. Its size is checked before anything is done. */
int ebb_hybrid_step(ebb_hybrid* optimizer, double learning_rate, double clip, void* stream,
                    ebb_hybrid_report* report);
int ebb_hybrid_step_groups(ebb_hybrid* optimizer, const ebb_hybrid_group* groups, int64_t count,
                           double clip, double gradient_scale, void* stream,
                           ebb_hybrid_report* report);
int ebb_hybrid_wait_for_weight(ebb_hybrid* optimizer, int64_t parameter, void* stream);
int ebb_hybrid_wait(ebb_hybrid* optimizer);
int ebb_hybrid_weights_changed(ebb_hybrid* optimizer, void* stream);

int ebb_hybrid_save(ebb_hybrid* optimizer, const char* path);
int ebb_hybrid_load(ebb_hybrid* optimizer, const char* path, void* stream);
int ebb_hybrid_read_master(ebb_hybrid* optimizer, int64_t parameter, float* to, int64_t count);
int ebb_hybrid_write_master(ebb_hybrid* optimizer, int64_t parameter, const float* from,
                            int64_t count, void* stream);
int ebb_hybrid_steps_of(ebb_hybrid* optimizer, int64_t parameter, int64_t* steps);
int ebb_hybrid_set_steps(ebb_hybrid* optimizer, int64_t parameter, int64_t steps);
/* `second` is null for rules that keep one moment; else both are of `count` elements. */
int ebb_hybrid_read_moments(ebb_hybrid* optimizer, int64_t parameter, float* first, float* second,
                            int64_t count);
int ebb_hybrid_write_moments(ebb_hybrid* optimizer, int64_t parameter, const float* first,
                             const float* second, int64_t count);
int ebb_hybrid_stored_moments(ebb_hybrid* optimizer, int64_t parameter, int64_t* bytes);
int ebb_hybrid_read_stored_moments(ebb_hybrid* optimizer, int64_t parameter, void* to,
                                   int64_t bytes);
int ebb_hybrid_write_stored_moments(ebb_hybrid* optimizer, int64_t parameter, const void* from,
                                    int64_t bytes);

int ebb_hybrid_placement_of(ebb_hybrid* optimizer, ebb_hybrid_placement* placement);
int ebb_hybrid_traffic(ebb_hybrid* optimizer, int64_t* up_bytes, int64_t* down_bytes);
/* Of 32 characters and a zero each, into memory of the caller's. */
int ebb_hybrid_digests(ebb_hybrid* optimizer, char* weights, char* moments);

#ifdef __cplusplus
}
#endif
