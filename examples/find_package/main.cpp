// train_and_write: trains a tiny model under a memory limit, then writes two texts with it. A
// program outside Ebb's tree that uses an installed Ebb.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <ebb/error.h>
#include <ebb/generator.h>
#include <ebb/trainer.h>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: train_and_write FOLDER, a new one for what it makes\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  try {
    std::filesystem::create_directories(folder);
    std::ofstream text(folder / "text.txt");
    for (int i = 0; i < 500; ++i) text << "tide " << i << " comes in, tide " << i << " goes out.\n";
    text.close();

    ebb::TrainOptions options;
    options.model = "preset:tiny";
    options.data = {(folder / "text.txt").string()};
    options.out = (folder / "run").string();
    options.device_memory = 16 * ebb::kMiB;
    options.sequence = 64;
    options.steps = 20;
    ebb::Trainer trainer(options);
    std::printf("predicted: %.0f tokens/s\n", trainer.plan().tokens_per_second);
    while (const auto report = trainer.step()) {
      if (report->step % 5 == 0)
        std::printf("step %2d: loss %.3f\n", int(report->step), report->loss);
    }
    const std::string checkpoint = trainer.finish().checkpoint;

    ebb::Generator generator(ebb::Model::open(checkpoint), {.positions = 128});
    for (const char* prompt : {"tide 7 ", "tide 8 "}) {
      std::printf("%s|%s\n", prompt, generator.generate(prompt, {.max_tokens = 24}).text.c_str());
    }
  } catch (const ebb::OutOfBudget& error) {
    for (const ebb::Shortfall& tier : error.shortfalls()) {
      std::fprintf(stderr, "%s: %s missing\n", tier.tier.c_str(),
                   ebb::format_bytes(tier.missing()).c_str());
    }
    return 1;
  } catch (const ebb::Error& error) {
    std::fprintf(stderr, "train_and_write: %s\n", error.what());
    return 1;
  }
}
