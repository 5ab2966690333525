#include "worker/trainer/run/same_data.h"

#include <span>

#include "base/crypto/sha256.h"
#include "worker/trainer/collectives/agreed.h"

namespace lockstep::trainer {

Status CompareData(const std::string& fingerprint, collectives::Communicator& all) {
  Sha256 hash;
  hash.Add(std::as_bytes(std::span(fingerprint)));
  const std::string mine = hash.Hex();
  std::string theirs(mine.size() * static_cast<size_t>(all.world()), ' ');
  Status gathered =
      all.AllGather({mine.data(), mine.size(), collectives::DataType::kByte},
                    {theirs.data(), theirs.size(), collectives::DataType::kByte}, "data");
  if (!gathered.ok()) return gathered;
  for (size_t rank = 0; rank < static_cast<size_t>(all.world()); ++rank) {
    if (theirs.compare(rank * mine.size(), mine.size(), theirs, 0, mine.size()) == 0) continue;
    return Agreed(Error::Invalid("rank " + std::to_string(rank) +
                                 " sees other data than rank 0: the files must be the same on "
                                 "every machine, and must not change while the job runs"),
                  all);
  }
  return {};
}

}  // namespace lockstep::trainer
