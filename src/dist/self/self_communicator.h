// One rank alone: it has nobody to talk to.
#pragma once

#include "dist/communicator.h"

namespace ebb::dist {

class SelfCommunicator final : public Communicator {
 public:
  SelfCommunicator();

  std::unique_ptr<Communicator> split() override { return std::make_unique<SelfCommunicator>(); }

 private:
  void end(const Failure& /*failure*/) noexcept override {}
  void run(std::span<const Send> /*sends*/, std::span<const Receive> /*receives*/) override {}
};

}  // namespace ebb::dist
