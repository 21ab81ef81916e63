#include "cli/generation_flags.h"

#include "cli/train_flags.h"
#include "cli/words.h"

namespace ebb::cli {

void add_sequences(CLI::App& verb, GenerateOptions& o) {
  verb.add_option(
          "--sequences", o.sequences,
          "Texts that are written at once: each takes a key-value cache of its own, and all "
          "share the reading of the weights")
      ->capture_default_str();
}

void add_generation_placement(CLI::App& verb, GenerateOptions& o) {
  GenerationPlacement& p = o.placement;
  const char* group = "Limits and placement";
  add_bytes(verb, "--device-memory", o.device_memory,
            "The most that may be held on the device, such as 8GiB; all it has if not given")
      ->group(group);
  add_bytes(verb, "--host-memory", o.host_memory, "The most that may be held in host memory")
      ->group(group);
  add_disks(verb, p.disk,
            "A folder for weights that host memory cannot hold, PATH or PATH:BYTES; several for "
            "several drives. Nothing of it is left at the end")
      ->group(group);
  add_blocks(verb, "--weights", p.weights, kWeightWords,
             "Blocks whose weights are not on the device: resident (none), stream (all), a number, "
             "auto")
      ->group(group);
  verb.add_option("--disk-weights", p.disk_weights,
                  "Layers, of those whose weights leave the device, whose weights are on the disk")
      ->group(group);
  add_word(verb, "--attention", p.attention,
           "The attention's weights where a layer's leave the device: resident (they stay), "
           "stream, auto")
      ->group(group);
  add_blocks(verb, "--cpu-blocks", p.cpu_blocks, kCpuBlockWords,
             "Layers, of those whose weights leave the device, that the CPU computes for tokens: "
             "none (their weights come up), all, a number, auto")
      ->group(group);
  add_blocks(verb, "--cpu-prompt-blocks", p.cpu_prompt_blocks, kCpuBlockWords,
             "The same in a prompt")
      ->group(group);
  add_word(verb, "--cache", p.cache,
           "The key-value cache: device, host, mixed (where each layer's attention is computed for "
           "tokens), auto")
      ->group(group);
  verb.add_option("--slice", p.slice,
                  "Tokens of a prompt that go through the model at once; the plan's choice if not "
                  "given")
      ->group(group);
  verb.add_option("--depth", p.depth,
                  "Weights that may be on their way at once, 2 or more: more hides more and takes "
                  "more memory")
      ->group(group);
}

}  // namespace ebb::cli
