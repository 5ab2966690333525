#include "worker/agent/services/pmix.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/gang/protocol/kvs_exchange.h"

namespace lockstep::agent {
namespace {

constexpr size_t kEntryBytes = size_t{4} << 10;  // of an entry's value; a message takes 8 KiB
constexpr size_t kMostVariables = 256;

Result<core::Variables> VariablesIn(std::string_view text) {
  core::Variables variables;
  while (!text.empty()) {
    const size_t end = text.find('\0');
    const std::string_view each = text.substr(0, end);
    const size_t equals = each.find('=');
    const bool whole = end != std::string_view::npos && equals != std::string_view::npos;
    if (!whole || equals == 0 || variables.size() == kMostVariables) {
      return Error::Invalid("variables that are none");
    }
    variables.emplace_back(each.substr(0, equals), each.substr(equals + 1));
    text.remove_prefix(end + 1);
  }
  return variables;
}

std::vector<core::TableEntry> EntriesOf(std::string_view data) {
  std::vector<core::TableEntry> entries;
  for (; !data.empty(); data.remove_prefix(std::min(kEntryBytes, data.size()))) {
    entries.push_back({"", std::string(data.substr(0, kEntryBytes))});
  }
  return entries;
}

}  // namespace

Pmix::Pmix(uint32_t machines, uint32_t processes)
    : most_(processes * core::MostTableBytes(machines, processes)), ranks_(processes) {}

Result<Pmix::Effects> Pmix::OnMessage(pmix::Message message) {
  const bool of_rank = message.kind == pmix::Kind::kVariables ||
                       message.kind == pmix::Kind::kConnected ||
                       message.kind == pmix::Kind::kFinalized || message.kind == pmix::Kind::kAbort;
  if (of_rank && message.local_rank >= ranks_.size()) return Error::Invalid("no rank of ours");
  Effects effects;
  switch (message.kind) {
    case pmix::Kind::kInitialized:
      break;
    case pmix::Kind::kVariables: {
      Result<core::Variables> variables = VariablesIn(message.bytes);
      if (!variables.ok()) return variables.error();
      ranks_[message.local_rank].variables = std::move(*variables);
      break;
    }
    case pmix::Kind::kReady:
      if (std::exchange(ready_, true)) return Error::Invalid("it is ready twice");
      for (Rank& rank : ranks_) effects.ready.push_back(std::move(rank.variables));
      break;
    case pmix::Kind::kConnected:
      ranks_[message.local_rank].joined = ranks_[message.local_rank].within = true;
      break;
    case pmix::Kind::kFinalized:
      ranks_[message.local_rank].within = false;
      break;
    case pmix::Kind::kAbort:
      effects.abort = MpiAbort{message.local_rank, message.code, std::move(message.bytes)};
      break;
    case pmix::Kind::kFence:
      return OnFencePart(message);
    case pmix::Kind::kProblem:
      return Error::Unavailable(message.bytes);
    case pmix::Kind::kBegin:
      return Error::Invalid("a message that a helper doesn't send");
  }
  return effects;
}

Result<Pmix::Effects> Pmix::OnFencePart(const pmix::Message& part) {
  if (!ready_ || fencing_) return Error::Invalid("a fence within a fence");
  Effects effects;
  const bool fits = data_.size() + part.bytes.size() <= most_;
  if (fits)
    data_ += part.bytes;
  else
    data_.assign(most_ + 1, '\0');  // however much follows
  if (!part.last) return effects;
  std::vector<core::TableEntry> entries = EntriesOf(std::exchange(data_, {}));
  size_t bytes = 0;
  for (const core::TableEntry& entry : entries) bytes += core::TableBytes(entry);
  if (bytes > most_) {
    effects.answers.push_back({.kind = pmix::Kind::kFence, .code = 1});
    effects.refused = "this machine's ranks put more into a fence than the " +
                      std::to_string(most_) + " bytes that they may";
    return effects;
  }
  fencing_ = true;
  effects.fence = std::move(entries);
  return effects;
}

std::vector<pmix::Message> Pmix::OnFence(const std::vector<core::TableEntry>& entries, bool last) {
  if (!fencing_) return {};
  std::string data;
  for (const core::TableEntry& entry : entries) data += entry.value;
  std::vector<pmix::Message> parts = pmix::FenceParts(data);
  parts.back().last = last;
  fencing_ = !last;
  return parts;
}

}  // namespace lockstep::agent
