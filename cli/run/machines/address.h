// Loopback addresses for the machines of one run. All of 127.0.0.0/8 is this computer, so each
// machine gets an address of its own and every run a block of its own: two runs never meet.
#ifndef LOCKSTEP_CLI_RUN_MACHINES_ADDRESS_H_
#define LOCKSTEP_CLI_RUN_MACHINES_ADDRESS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace lockstep::cli {

// The first address of a run is 127.<high>.<low>.1; machines beyond 250 go on in the next <low>.
struct AddressBlock {
  uint8_t high = 0;
  uint8_t low = 0;

  std::string Machine(uint32_t machine) const;
};

// A block of which `is_free(address)` holds for every machine. `random` gives 16 bits a call.
// Unavailable when none of many was free.
Result<AddressBlock> ChooseBlock(uint32_t machines, const std::function<uint16_t()>& random,
                                 const std::function<bool(const std::string&)>& is_free);

// Whether this process could listen on the gang's and the metrics' port of `address`.
bool GangPortsFree(const std::string& address);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_MACHINES_ADDRESS_H_
