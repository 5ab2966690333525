// Lines of PMI's clients: whatever two of them say, answers are whole lines, and a table stays
// within what two ranks may put.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/gang/protocol/kvs_exchange.h"
#include "worker/agent/services/pmi.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::agent::Pmi pmi({0, 1, 2, "kvs", {1, 2}});
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  size_t put = 0;
  uint64_t client = 1;
  if (!pmi.OnLine(1, "cmd=initack pmiid=1").ok()) std::abort();
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    client = 3 - client;
    const auto effects = pmi.OnLine(client, line);
    if (!effects.ok()) {
      pmi.OnClose(client);
      continue;
    }
    for (const auto& [to, answer] : effects->answers) {
      if (answer.empty() || answer.back() != '\n') std::abort();
    }
    if (!effects->fence) continue;
    for (const auto& entry : *effects->fence) put += lockstep::core::TableBytes(entry);
    if (put > 2 * lockstep::core::MostTableBytes(1, 2)) std::abort();
    pmi.OnFence(*effects->fence, true);
  }
  return 0;
}
