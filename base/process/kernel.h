// The oldest Linux that Lockstep's processes can be started on.
#ifndef LOCKSTEP_BASE_PROCESS_KERNEL_H_
#define LOCKSTEP_BASE_PROCESS_KERNEL_H_

#include <string_view>

#include "base/result.h"

namespace lockstep {

// Denied if this kernel lacks what Spawner needs: a pidfd from clone, and close_range that sets
// close-on-exec, which came last, with Linux 5.11.
Status CheckKernel();

// The rule of it. `release`: as uname has it, "5.10.0-30-amd64". `probe_error`: the errno of such a
// close_range, or 0. A newer kernel's error is a sandbox's and accepted: descriptors that this
// process inherited then stay open in its children. So is an older kernel that has the call.
Status CheckKernel(std::string_view release, int probe_error);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_PROCESS_KERNEL_H_
