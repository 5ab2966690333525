// The handshake before NCCL starts: every rank reports its GPU and NCCL, and rank 0 decides for
// all. A rank without a GPU, or with another NCCL than its peers, is then named on every rank at
// once; NCCL itself would hang.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_HANDSHAKE_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_HANDSHAKE_H_

#include <functional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "worker/trainer/collectives/nccl/nccl_api.h"
#include "worker/trainer/collectives/transport.h"

namespace lockstep::collectives {

// The key of the rendezvous that stands for `what` in this generation.
std::string RollKey(const std::string& generation, const std::string& what);

// What ranks write to each other: "ok " and a text, or "<kind> <message>" of an error.
std::string EncodeRoll(const Result<std::string>& said);
Result<std::string> DecodeRoll(const std::string& value);

// Before ranks leave with an error: waits, a little, until all have heard it, lest some hear of a
// rank that is lost instead.
void HearTogether(Rendezvous& rendezvous, const std::string& generation);

// What one rank has.
struct NcclPart {
  int version = 0;  // NCCL's
  int local = 1;    // NcclRanks::UsableLocal
};
// Or why it cannot take part.
using NcclReport = Result<NcclPart>;

// What all ranks begin with.
struct NcclStart {
  nccl::UniqueId id{};
  int local = 1;  // all ranks' own, if it is the same; else 1
};

// Hands in this rank's `report` and returns the unique id that rank 0 made by `make_id`, or the
// same error on every rank: the lowest failed rank's, or kInvalid for versions that differ.
// `generation` makes the keys this generation's own (Options::identity).
//
// In the rendezvous, R a rank: "nccl/<generation>/R" is "ok <version> <local>" or "<kind>
// <message>", and "nccl/<generation>/id" is "ok <128 bytes><local>" or "<kind> <message>"; kind:
// ErrorKind as a number. HearTogether's are "R/heard", and "heard" of rank 0.
Result<NcclStart> CallRoll(Rendezvous& rendezvous, const std::string& generation,
                           const NcclReport& report,
                           const std::function<Result<nccl::UniqueId>()>& make_id, Time deadline);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_HANDSHAKE_H_
