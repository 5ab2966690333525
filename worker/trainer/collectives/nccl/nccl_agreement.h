// How NCCL's initialisation ends, the same on every rank. NCCL itself notices neither a lost rank
// then nor one that gave up: a driver that is too old for this NCCL shows on its own rank alone.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_AGREEMENT_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_AGREEMENT_H_

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/time.h"
#include "worker/trainer/collectives/transport.h"

namespace lockstep::collectives {

// In the rendezvous: "nccl/<generation>/R/made", of each rank that is out of its initialisation,
// and "nccl/<generation>/over", by whoever comes first: "ok" from rank 0 once all ranks are
// through, or the error of a rank that failed, as CallRoll writes them.
class NcclAgreement {
 public:
  // Calls `failed`, from a thread of its own, when another rank fails or is lost before Agree().
  NcclAgreement(Rendezvous& rendezvous, std::string generation, Time deadline,
                std::function<void()> failed);
  ~NcclAgreement();
  NcclAgreement(const NcclAgreement&) = delete;
  NcclAgreement& operator=(const NcclAgreement&) = delete;

  // Hands in how this rank's initialisation ended and waits for all others: OK where all are, else
  // the same error on every rank, the first one's. Once.
  Status Agree(const Status& own);

 private:
  // Rank 0's: all ranks are through.
  Status AwaitAll();
  void Watch(const std::function<void()>& failed);

  Rendezvous& rendezvous_;
  const std::string generation_;
  const Time deadline_;
  std::optional<Error> error_;  // the thread's, until it is joined; without one, why
  std::thread thread_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_AGREEMENT_H_
