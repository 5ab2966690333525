// Which of this computer's addresses speaks to another computer.
#ifndef LOCKSTEP_BASE_NET_ROUTE_H_
#define LOCKSTEP_BASE_NET_ROUTE_H_

#include <string>

#include "base/result.h"

namespace lockstep {

// The IP address that connections from here to the IP address `host` come from, by the kernel's
// routes: a loopback one where `host` is this computer. Nothing is sent. Invalid: no IP address.
// Unavailable: no route leads there.
Result<std::string> OwnAddressTowards(const std::string& host);

// 127.0.0.0/8, ::1.
bool IsLoopback(const std::string& address);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_NET_ROUTE_H_
