#include "operator/gang/agent_requests.h"

namespace lockstep::gang {

std::string GetStatusRequest() { return "GET /status HTTP/1.1\r\nHost: lockstep\r\n\r\n"; }

std::string GetStatusRequest(uint64_t after, Duration timeout, bool by_machine) {
  return "GET /status?after=" + std::to_string(after) +
         "&timeout=" + std::to_string(timeout / seconds(1)) + (by_machine ? "&by=machine" : "") +
         " HTTP/1.1\r\nHost: lockstep\r\n\r\n";
}

std::string PutGangRequest(std::string_view body) {
  return "PUT /gang HTTP/1.1\r\nHost: lockstep\r\nContent-Type: application/json\r\n"
         "Content-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace lockstep::gang
