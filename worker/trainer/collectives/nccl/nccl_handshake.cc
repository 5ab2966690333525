#include "worker/trainer/collectives/nccl/nccl_handshake.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include "worker/trainer/collectives/nccl/nccl_library.h"

namespace lockstep::collectives {
namespace {

constexpr std::string_view kOk = "ok ";
constexpr Duration kHearing = seconds(2);

NcclReport ReadReport(Rendezvous& rendezvous, const std::string& generation, int rank,
                      Time deadline) {
  const std::string who = "rank " + std::to_string(rank);
  Result<std::string> value = rendezvous.Get(RollKey(generation, std::to_string(rank)), deadline);
  if (!value.ok())
    return Error{value.error().kind, who + " did not start NCCL in time: " + value.error().message};
  Result<std::string> text = DecodeRoll(*value);
  if (!text.ok()) return Error{text.error().kind, who + ": " + text.error().message};
  NcclPart part;
  const char* const last = text->data() + text->size();
  const char* const space = std::from_chars(text->data(), last, part.version).ptr;
  if (space != last) std::from_chars(space + 1, last, part.local);
  return part;
}

// Rank 0's decision.
Result<NcclStart> Decide(Rendezvous& rendezvous, const std::string& generation,
                         const NcclReport& own,
                         const std::function<Result<nccl::UniqueId>()>& make_id, Time deadline) {
  if (!own.ok()) return Error{own.error().kind, "rank 0: " + own.error().message};
  NcclStart start{.local = own->local};
  for (int rank = 1; rank < rendezvous.world(); ++rank) {
    const NcclReport report = ReadReport(rendezvous, generation, rank, deadline);
    if (!report.ok()) return report.error();
    if (report->version != own->version) {
      return Error::Invalid(
          "rank " + std::to_string(rank) + " has NCCL " + NcclVersionText(report->version) +
          " and rank 0 has " + NcclVersionText(own->version) +
          ": NCCL needs the same version on all ranks, so start all machines from one image");
    }
    if (report->local != start.local) start.local = 1;
  }
  const Result<nccl::UniqueId> id = make_id();
  if (!id.ok()) return id.error();
  start.id = *id;
  return start;
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
  if (failed != std::errc() || kind < 0 || kind > static_cast<int>(ErrorKind::kBroken))
    return Error::Internal("a rank wrote '" + value.substr(0, 64) +
                           "' where NCCL's roll is called");
  const auto used = static_cast<size_t>(end - value.data());
  return Error{static_cast<ErrorKind>(kind), value.substr(std::min(used + 1, value.size()))};
}

void HearTogether(Rendezvous& rendezvous, const std::string& generation) {
  // Whoever is lost meanwhile ends the wait.
  const Time until = BootTime() + kHearing;
  const std::string all = RollKey(generation, "heard");
  if (rendezvous.rank() != 0) {
    const std::string mine = RollKey(generation, std::to_string(rendezvous.rank()) + "/heard");
    if (rendezvous.Set(mine, "").ok()) {
      [[maybe_unused]] const Result<std::string> heard = rendezvous.Get(all, until);
    }
    return;
  }
  for (int rank = 1; rank < rendezvous.world(); ++rank) {
    if (!rendezvous.Get(RollKey(generation, std::to_string(rank) + "/heard"), until).ok()) break;
  }
  [[maybe_unused]] const Status told = rendezvous.Set(all, "");
}

Result<NcclStart> CallRoll(Rendezvous& rendezvous, const std::string& generation,
                           const NcclReport& report,
                           const std::function<Result<nccl::UniqueId>()>& make_id, Time deadline) {
  if (rendezvous.rank() == 0) {
    Result<NcclStart> start = Decide(rendezvous, generation, report, make_id, deadline);
    const std::string value =
        start.ok() ? EncodeRoll(std::string(start->id.bytes, sizeof(start->id.bytes)) +
                                std::to_string(start->local))
                   : EncodeRoll(start.error());
    if (Status set = rendezvous.Set(RollKey(generation, "id"), value); !set.ok())
      return set.error();
    if (!start.ok()) HearTogether(rendezvous, generation);
    return start;
  }
  const std::string value =
      report.ok()
          ? EncodeRoll(std::to_string(report->version) + " " + std::to_string(report->local))
          : EncodeRoll(report.error());
  const std::string key = RollKey(generation, std::to_string(rendezvous.rank()));
  if (Status set = rendezvous.Set(key, value); !set.ok()) return set.error();
  Result<std::string> decided = rendezvous.Get(RollKey(generation, "id"), deadline);
  if (!decided.ok()) return decided.error();
  Result<std::string> text = DecodeRoll(*decided);
  if (!text.ok()) {
    HearTogether(rendezvous, generation);
    return text.error();
  }
  NcclStart start;
  constexpr size_t kId = sizeof(start.id.bytes);
  const char* const last = text->data() + text->size();
  if (text->size() <= kId || std::from_chars(text->data() + kId, last, start.local).ptr != last)
    return Error::Internal("rank 0 sent a unique id of " + std::to_string(text->size()) + " bytes");
  std::memcpy(start.id.bytes, text->data(), kId);
  return start;
}

}  // namespace lockstep::collectives
