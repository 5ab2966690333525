#include "worker/trainer/collectives/store/analyze.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/file.h"
#include "base/folder.h"
#include "base/text/json.h"
#include "worker/trainer/collectives/store/blame.h"

namespace lockstep::collectives {
namespace {

constexpr size_t kMaxEvidence = size_t{64} << 20;  // bytes of one rank's file

struct Seen {
  uint64_t number = 0;
  uint64_t bytes = 0;
  std::string kind;
  std::string tag;
  std::string state;
  int peer = -1;

  bool collective() const { return kind != "send" && kind != "receive" && kind != "exchange"; }
  bool done() const { return state == "finished"; }
  std::string Describe() const {
    std::string text = kind + " " + std::to_string(number);
    if (!tag.empty()) text += " \"" + tag + "\"";
    if (kind == "send") text += " to rank " + std::to_string(peer);
    if (kind == "receive") text += " from rank " + std::to_string(peer);
    if (kind == "exchange") text += " with rank " + std::to_string(peer);
    return text;
  }
};

struct Dump {
  std::string identity;
  int64_t utc = 0;
  int world = 0;
  int blamed = -1;
  uint64_t issued = 0;
  std::string reason;
  std::vector<Seen> operations;

  // The oldest one that did not end.
  const Seen* Waiting() const {
    const auto found = std::find_if(operations.begin(), operations.end(),
                                    [](const Seen& one) { return !one.done(); });
    return found == operations.end() ? nullptr : &*found;
  }
  const Seen* Collective(uint64_t number) const {
    const auto found = std::find_if(operations.begin(), operations.end(), [&](const Seen& one) {
      return one.collective() && one.number == number;
    });
    return found == operations.end() ? nullptr : &*found;
  }
};

using Dumps = std::map<int, Dump>;  // by rank

Dump FromJson(const Json& in) {
  Dump dump{.identity = in.at("identity"),
            .utc = in.at("clock").at("utc"),
            .world = in.at("world"),
            .blamed = in.at("blamed"),
            .issued = in.at("issued"),
            .reason = in.at("reason"),
            .operations = {}};
  for (const Json& one : in.at("operations")) {
    dump.operations.push_back({.number = one.at("number"),
                               .bytes = one.at("bytes"),
                               .kind = one.at("kind"),
                               .tag = one.at("tag"),
                               .state = one.at("state"),
                               .peer = one.at("peer")});
  }
  return dump;
}

Status Read(const std::string& path, Dumps* dumps) {
  const Result<std::string> text = ReadFile(path, kMaxEvidence);
  if (!text.ok()) return text.error();
  try {
    const Json in = Json::parse(*text);
    dumps->emplace(in.at("rank").get<int>(), FromJson(in));
    return {};
  } catch (const Json::exception& bad) {
    return Error::Invalid(path + " is not a rank's evidence: " + bad.what());
  }
}

// Ranks that wrote nothing in the last generation may have left files in an earlier one.
void KeepNewest(Dumps* dumps) {
  const auto newest =
      std::max_element(dumps->begin(), dumps->end(),
                       [](const auto& a, const auto& b) { return a.second.utc < b.second.utc; });
  const std::string identity = newest->second.identity;
  std::erase_if(*dumps, [&](const auto& one) { return one.second.identity != identity; });
}

Result<Dumps> ReadAll(const std::string& dir) {
  Dumps dumps;
  Status read;
  const auto visit = [&](const std::filesystem::directory_entry& entry) {
    const std::string name = entry.path().filename();
    if (name.rfind("rank-", 0) != 0 || entry.path().extension() != ".json") return;
    if (read.ok()) read = Read(entry.path(), &dumps);
  };
  std::error_code failed;
  ForEachEntry(dir, visit, &failed);
  if (!read.ok()) return read.error();
  if (failed) return Error::NotFound("reading " + dir + ": " + failed.message());
  if (dumps.empty()) {
    return Error::NotFound("no rank-NNNNN.json in " + dir +
                           ": it is written when an operation is late or a peer is lost");
  }
  KeepNewest(&dumps);
  return dumps;
}

std::vector<int> Missing(const Dumps& dumps) {
  std::vector<int> missing;
  for (int rank = 0; rank < dumps.begin()->second.world; ++rank) {
    if (!dumps.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

// "; ranks 0 and 1 wait in allreduce 17", for the operation that most ranks wait in.
std::string WhoWaits(const Dumps& dumps) {
  std::map<std::string, std::vector<int>> waiting;
  for (const auto& [rank, dump] : dumps) {
    if (const Seen* one = dump.Waiting()) waiting[one->Describe()].push_back(rank);
  }
  if (waiting.empty()) return "; no other rank waits for anything";
  const auto most = std::max_element(
      waiting.begin(), waiting.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  return "; " + NameRanks(most->second) + (most->second.size() == 1 ? " waits in " : " wait in ") +
         most->first;
}

std::optional<std::string> NoEvidence(const Dumps& dumps) {
  const std::vector<int> missing = Missing(dumps);
  if (missing.empty()) return std::nullopt;
  return NameRanks(missing) + " fell behind: " + (missing.size() == 1 ? "it" : "they") +
         " left no evidence (stopped, or dead)" + WhoWaits(dumps);
}

// Ranks that never issued a collective that others began.
std::optional<std::string> NeverIssued(const Dumps& dumps) {
  uint64_t least = dumps.begin()->second.issued;
  for (const auto& [rank, dump] : dumps) least = std::min(least, dump.issued);
  std::vector<int> behind;
  std::vector<int> ahead;
  const Seen* next = nullptr;
  for (const auto& [rank, dump] : dumps) {
    (dump.issued == least ? behind : ahead).push_back(rank);
    if (next == nullptr && dump.issued > least) next = dump.Collective(least + 1);
  }
  if (next == nullptr) return std::nullopt;
  return NameRanks(behind) + " fell behind: " + (behind.size() == 1 ? "it" : "they") +
         " never issued " + next->Describe() + ", which " + NameRanks(ahead) + " began";
}

// Ranks whose collective of the same number is another one.
std::optional<std::string> Mismatch(const Dumps& dumps) {
  std::set<uint64_t> waiting;
  for (const auto& [rank, dump] : dumps) {
    const Seen* one = dump.Waiting();
    if (one != nullptr && one->collective()) waiting.insert(one->number);
  }
  for (const uint64_t number : waiting) {
    std::map<std::string, std::vector<int>> kinds;
    for (const auto& [rank, dump] : dumps) {
      const Seen* one = dump.Collective(number);
      if (one == nullptr) continue;
      kinds[one->Describe() + " of " + std::to_string(one->bytes) + " bytes"].push_back(rank);
    }
    if (kinds.size() < 2) continue;
    const auto fewest = std::min_element(
        kinds.begin(), kinds.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const auto other = fewest == kinds.begin() ? std::next(fewest) : kinds.begin();
    return NameRanks(fewest->second) + (fewest->second.size() == 1 ? " differs" : " differ") +
           ": there it is " + fewest->first + ", where " + NameRanks(other->second) +
           (other->second.size() == 1 ? " has " : " have ") + other->first;
  }
  return std::nullopt;
}

// The peer of a send, receive or exchange that did not end, and that does not wait itself for this
// rank.
std::optional<std::string> SilentPeer(const Dumps& dumps) {
  for (const auto& [rank, dump] : dumps) {
    const Seen* one = dump.Waiting();
    if (one == nullptr || one->collective()) continue;
    const auto peer = dumps.find(one->peer);
    if (peer == dumps.end() || peer->second.Waiting() != nullptr) continue;
    return NameRanks({one->peer}) + " fell behind: it has no part in " + one->Describe() +
           ", in which " + NameRanks({rank}) + " waits";
  }
  return std::nullopt;
}

}  // namespace

Result<std::string> Analyze(const std::string& dir) {
  Result<Dumps> dumps = ReadAll(dir);
  if (!dumps.ok()) return dumps.error();
  for (const auto& find : {NoEvidence, NeverIssued, Mismatch, SilentPeer}) {
    if (std::optional<std::string> found = find(*dumps)) return *found;
  }
  for (const auto& [rank, dump] : *dumps) {
    if (dump.blamed >= 0) {
      return NameRanks({dump.blamed}) + " was blamed by all: " + dump.reason;
    }
  }
  return "no rank fell behind: " + dumps->begin()->second.reason + WhoWaits(*dumps);
}

}  // namespace lockstep::collectives
