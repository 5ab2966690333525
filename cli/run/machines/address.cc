#include "cli/run/machines/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/unique_fd.h"
#include "core/model/names.h"

namespace lockstep::cli {
namespace {

constexpr uint32_t kPerStep = 250;
constexpr uint32_t kMaxSteps = 17;  // 4,096 machines
constexpr int kTries = 64;

bool CanListen(const std::string& address, int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return false;
  int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, address.c_str(), &name.sin_addr);
  return bind(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0 &&
         listen(fd.get(), 1) == 0;
}

}  // namespace

std::string AddressBlock::Machine(uint32_t machine) const {
  return "127." + std::to_string(high) + "." + std::to_string(low + machine / kPerStep) + "." +
         std::to_string(1 + machine % kPerStep);
}

Result<AddressBlock> ChooseBlock(uint32_t machines, const std::function<uint16_t()>& random,
                                 const std::function<bool(const std::string&)>& is_free) {
  for (int i = 0; i < kTries; ++i) {
    uint16_t bits = random();
    AddressBlock block;
    block.high = static_cast<uint8_t>(1 + (bits >> 8) % 254);  // 127.0 is everybody's, 127.255 too
    block.low = static_cast<uint8_t>((bits & 0xff) % (256 - kMaxSteps));
    bool free = true;
    for (uint32_t m = 0; m < machines && free; ++m) free = is_free(block.Machine(m));
    if (free) return block;
  }
  return Error::Unavailable(
      "no free block of loopback addresses; is the network namespace without 127.0.0.0/8, or is "
      "port " +
      std::to_string(core::kGangPort) + " taken on all addresses?");
}

bool GangPortsFree(const std::string& address) {
  return CanListen(address, core::kGangPort) && CanListen(address, core::kMetricsPort);
}

}  // namespace lockstep::cli
