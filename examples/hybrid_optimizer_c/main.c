/* A training loop in C with Ebb's optimizer: a line through points, y = 3x - 1. With an installed
 * Ebb: cc -std=c99 main.c -lebb_hybrid. Exits with 1 where it fails or does not find the line. */
#include <ebb/hybrid_optimizer_c.h>

#include <math.h>
#include <stdio.h>

#define STEPS 500

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, ebb_hybrid_error());
  return 1;
}

int main(void) {
  float weights[2] = {0, 0}; /* slope and height */
  float gradients[2];
  const ebb_hybrid_parameter line = {.struct_size = sizeof line,
                                     .name = "line",
                                     .weight = weights,
                                     .gradient = gradients,
                                     .count = 2,
                                     .weight_type = 1,
                                     .gradient_type = 1};
  ebb_hybrid_report report = {.struct_size = sizeof report};
  ebb_hybrid* optimizer;
  int step, i, failed = 0;

  if (ebb_hybrid_version() != EBB_HYBRID_VERSION) {
    fprintf(stderr, "the library is of version %d, compiled for %d\n", ebb_hybrid_version(),
            EBB_HYBRID_VERSION);
    return 1;
  }
  optimizer = ebb_hybrid_create("{\"states\": \"host\", \"threads\": 1}", &line, 1, NULL);
  if (optimizer == NULL) return fail("create");
  for (step = 0; step < STEPS && !failed; ++step) {
    failed = ebb_hybrid_wait_for_weight(optimizer, 0, NULL);
    gradients[0] = gradients[1] = 0;
    for (i = -4; i <= 4; ++i) {
      const float error = weights[0] * (float)i + weights[1] - (3.0f * (float)i - 1.0f);
      gradients[0] += error * (float)i / 9;
      gradients[1] += error / 9;
    }
    failed = failed || ebb_hybrid_gradient_ready(optimizer, 0, NULL) ||
             ebb_hybrid_step(optimizer, 0.1 * (STEPS - step) / STEPS, 1.0, NULL, &report);
  }
  failed = failed || ebb_hybrid_wait(optimizer);
  if (failed) fail("train");
  ebb_hybrid_destroy(optimizer);
  printf("step %d: y = %.3f x %+.3f\n", (int)report.step, weights[0], weights[1]);
  return failed || fabsf(weights[0] - 3) > 0.01f || fabsf(weights[1] + 1) > 0.01f;
}
