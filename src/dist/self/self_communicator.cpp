#include "dist/self/self_communicator.h"

#include "dist/host_name.h"

namespace ebb::dist {

SelfCommunicator::SelfCommunicator() : Communicator(0, 1) { set_hosts({host_name()}); }

}  // namespace ebb::dist
