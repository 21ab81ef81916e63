// HybridOptimizer behind functions of C linkage, in the shared library ebb_hybrid: for languages
// that load one and declare its functions themselves (tools/gpu_hybrid.py does so from Python). The
// contract of every call is that of the method it is named after.
//
// Functions that return int return 0, or 1 for a failure whose text ebb_hybrid_error() gives, on
// the same thread, until the next failure. No C++ exception leaves them.
#pragma once

#include <cstdint>

extern "C" {

struct ebb_hybrid;  // an optimizer

struct ebb_hybrid_parameter {
  const char* name;
  void* weight;
  const void* gradient;
  int64_t count;
  int32_t weight_type;  // 0: bf16, 1: fp32
  int32_t gradient_type;
  int32_t decays;
};

struct ebb_hybrid_report {
  int64_t step;
  double norm;
  double clip_factor;
  int64_t first_bad;
  int32_t applied;
};

struct ebb_hybrid_placement {
  int64_t device_bytes;
  int64_t host_bytes;
  int64_t resident_parameters;
  int64_t streamed_parameters;
  int64_t host_parameters;
};

const char* ebb_hybrid_error(void);

// `settings` is a JSON object of HybridOptimizer::Settings' fields by name, those of the rule
// beside them: {"rule": "adamw", "weight_decay": 0.1, "states": "stream", "device": "cuda"}. Null
// on failure.
ebb_hybrid* ebb_hybrid_create(const char* settings, const ebb_hybrid_parameter* parameters,
                              int64_t count, void* stream);
void ebb_hybrid_destroy(ebb_hybrid* optimizer);

int ebb_hybrid_set_gradient(ebb_hybrid* optimizer, int64_t parameter, const void* gradient);
int ebb_hybrid_gradient_ready(ebb_hybrid* optimizer, int64_t parameter, void* stream);
int ebb_hybrid_step(ebb_hybrid* optimizer, double learning_rate, double clip, void* stream,
                    ebb_hybrid_report* report);
int ebb_hybrid_wait_for_weight(ebb_hybrid* optimizer, int64_t parameter, void* stream);
int ebb_hybrid_wait(ebb_hybrid* optimizer);
int ebb_hybrid_weights_changed(ebb_hybrid* optimizer, void* stream);

int ebb_hybrid_save(ebb_hybrid* optimizer, const char* path);
int ebb_hybrid_load(ebb_hybrid* optimizer, const char* path, void* stream);
int ebb_hybrid_read_master(ebb_hybrid* optimizer, int64_t parameter, float* to, int64_t count);

int ebb_hybrid_placement_of(ebb_hybrid* optimizer, ebb_hybrid_placement* placement);
int ebb_hybrid_traffic(ebb_hybrid* optimizer, int64_t* up_bytes, int64_t* down_bytes);
// Of 32 characters and a zero each, into memory of the caller's.
int ebb_hybrid_digests(ebb_hybrid* optimizer, char* weights, char* moments);

}  // extern "C"
