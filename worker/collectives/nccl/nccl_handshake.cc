#include "worker/collectives/nccl/nccl_handshake.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include "worker/collectives/nccl/nccl_library.h"

namespace lockstep::collectives {
namespace {

constexpr std::string_view kOk = "ok ";

Result<int> ReadReport(Rendezvous& rendezvous, const std::string& generation, int rank,
                       Time deadline) {
  const std::string who = "rank " + std::to_string(rank);
  Result<std::string> value = rendezvous.Get(RollKey(generation, std::to_string(rank)), deadline);
  if (!value.ok())
    return Error{value.error().kind, who + " did not come to start NCCL: " + value.error().message};
  Result<std::string> text = DecodeRoll(*value);
  if (!text.ok()) return Error{text.error().kind, who + ": " + text.error().message};
  int version = 0;
  std::from_chars(text->data(), text->data() + text->size(), version);
  return version;
}

// Rank 0's decision.
Result<nccl::UniqueId> Decide(Rendezvous& rendezvous, const std::string& generation,
                              const NcclReport& own,
                              const std::function<Result<nccl::UniqueId>()>& make_id,
                              Time deadline) {
  if (!own.ok()) return Error{own.error().kind, "rank 0: " + own.error().message};
  for (int rank = 1; rank < rendezvous.world(); ++rank) {
    Result<int> version = ReadReport(rendezvous, generation, rank, deadline);
    if (!version.ok()) return version.error();
    if (*version != *own) {
      return Error::Invalid("rank " + std::to_string(rank) + " has NCCL " +
                            NcclVersionText(*version) + " and rank 0 has " + NcclVersionText(*own) +
                            ": NCCL wants the same on all ranks, so start all machines from one "
                            "image");
    }
  }
  return make_id();
}

}  // namespace

std::string RollKey(const std::string& generation, const std::string& what) {
  return "nccl/" + generation + "/" + what;
}

std::string EncodeRoll(const Result<std::string>& said) {
  if (said.ok()) return std::string(kOk) + *said;
  return std::to_string(static_cast<int>(said.error().kind)) + " " + said.error().message;
}

Result<std::string> DecodeRoll(const std::string& value) {
  if (value.starts_with(kOk)) return value.substr(kOk.size());
  int kind = 0;
  const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), kind);
  if (failed != std::errc() || kind < 0 || kind > static_cast<int>(ErrorKind::kInternal))
    return Error::Internal("a rank wrote '" + value.substr(0, 64) +
                           "' where NCCL's roll is called");
  const auto used = static_cast<size_t>(end - value.data());
  return Error{static_cast<ErrorKind>(kind), value.substr(std::min(used + 1, value.size()))};
}

Result<nccl::UniqueId> CallRoll(Rendezvous& rendezvous, const std::string& generation,
                                const NcclReport& report,
                                const std::function<Result<nccl::UniqueId>()>& make_id,
                                Time deadline) {
  if (rendezvous.rank() == 0) {
    Result<nccl::UniqueId> id = Decide(rendezvous, generation, report, make_id, deadline);
    const std::string value =
        id.ok() ? EncodeRoll(std::string(id->bytes, sizeof(id->bytes))) : EncodeRoll(id.error());
    if (Status set = rendezvous.Set(RollKey(generation, "id"), value); !set.ok())
      return set.error();
    return id;
  }
  const std::string value =
      report.ok() ? EncodeRoll(std::to_string(*report)) : EncodeRoll(report.error());
  const std::string key = RollKey(generation, std::to_string(rendezvous.rank()));
  if (Status set = rendezvous.Set(key, value); !set.ok()) return set.error();
  Result<std::string> decided = rendezvous.Get(RollKey(generation, "id"), deadline);
  if (!decided.ok()) return decided.error();
  Result<std::string> text = DecodeRoll(*decided);
  if (!text.ok()) return text.error();
  nccl::UniqueId id{};
  if (text->size() != sizeof(id.bytes))
    return Error::Internal("rank 0 sent a unique id of " + std::to_string(text->size()) + " bytes");
  std::memcpy(id.bytes, text->data(), sizeof(id.bytes));
  return id;
}

}  // namespace lockstep::collectives
