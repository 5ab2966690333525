#include "core/plan/far_end.h"

#include <tuple>

#include "base/text/ascii.h"
#include "core/record/reader.h"
#include "core/record/writer.h"
#include "core/text/text.h"

namespace lockstep::core {

template <>
inline constexpr auto kFields<AgentFacts> =
    std::tuple(Field{"version", &AgentFacts::version, Required{}},
               Field{"address", &AgentFacts::address, Required{}},
               Field{"ports", &AgentFacts::ports, Required{}});

template <>
inline constexpr auto kFields<AgentEnding> =
    std::tuple(Field{"exitCode", &AgentEnding::exit_code, Required{}},
               Field{"signal", &AgentEnding::signal, Required{}},
               Field{"termination", &AgentEnding::termination});

namespace {

constexpr std::string_view kEndingMark = "lockstep-agent ended: ";
constexpr size_t kMaxRecord = 64 << 10;

}  // namespace

std::string ToJson(const AgentFacts& facts) { return WriteJson(WriteRecord(facts)); }

Result<AgentFacts> ParseAgentFacts(std::string_view output) {
  const std::string_view text = Trim(output);
  const size_t line = text.rfind('\n');
  return ParseRecord<AgentFacts>(line == std::string_view::npos ? text : text.substr(line + 1),
                                 kMaxRecord, "");
}

std::string EndingLine(const AgentEnding& ending) {
  return std::string(kEndingMark) + WriteJson(WriteRecord(ending));
}

std::optional<AgentEnding> ParseEndingLine(std::string_view line) {
  if (!line.starts_with(kEndingMark)) return std::nullopt;
  Result<AgentEnding> ending =
      ParseRecord<AgentEnding>(line.substr(kEndingMark.size()), kMaxRecord, "");
  return ending.ok() ? std::optional(*std::move(ending)) : std::nullopt;
}

}  // namespace lockstep::core
