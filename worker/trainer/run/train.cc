#include "worker/trainer/run/train.h"

#include <memory>
#include <optional>
#include <utility>

#include "core/exit_codes.h"
#include "worker/trainer/collectives/nccl/nccl_log.h"
#include "worker/trainer/cuda/engine/cuda_engine.h"
#include "worker/trainer/link/evidence_signal.h"
#include "worker/trainer/link/rejoin.h"
#include "worker/trainer/process/environment.h"
#include "worker/trainer/process/exit_code.h"
#include "worker/trainer/process/stop_signal.h"
#include "worker/trainer/run/rank_run.h"
#include "worker/trainer/run/setup.h"
#include "worker/trainer/run/survivors.h"

namespace lockstep::trainer {

int Train(const TrainOptions& options) {
  collectives::KeepNcclLog();
  EvidenceSignal::Block();
  StopSignal stop;
  std::optional<Gpu> gpu;  // stays open between generations: a context and kernels take their time
  std::optional<Kept> kept;
  for (;;) {
    Environment environment = ReadEnvironment();
    std::optional<Rejoin> rejoin;
    if (options.job.recovery == core::Recovery::kInPlace && !environment.socket.empty() &&
        !environment.generation.empty()) {
      rejoin.emplace(environment.socket, environment.rank, environment.generation);
    }
    Result<Setup> setup = Setup::Make(options.job, gpu ? &*gpu : nullptr);
    if (!setup.ok()) return Fail(setup.error());
    if (rejoin && !gpu && setup->place.gpu()) {
      Result<Gpu> again = setup->place.gpu()->Again();
      if (!again.ok()) return Fail(again.error());
      gpu.emplace(std::move(*again));
    }
    auto run = std::make_unique<RankRun>(options, std::move(environment), std::move(*setup), stop,
                                         rejoin ? &*rejoin : nullptr, std::move(kept));
    const Result<int> code = run->Go();
    if (code.ok()) return *code;
    const bool broken = code.error().kind == ErrorKind::kBroken;
    if (broken || !run->ended()) return Fail(code.error());
    Warn(code.error().message + "; this process stays alive");
    if (Status withdrawn = run->Withdraw(); !withdrawn.ok()) return Fail(withdrawn.error());
    if (Status left = rejoin->SayLeft(); !left.ok()) {
      Complain(left.error());
      return core::kExitPeerLost;
    }
    // After that: a large model's copy takes longer than an agent waits for a rank to leave.
    Result<std::optional<Kept>> taken = run->TakeKept();
    if (!taken.ok()) return Fail(taken.error());
    kept = std::move(*taken);
    run.reset();
    const Result<lockstep::Json> next = rejoin->AwaitNext();
    const Status told = next.ok() ? ApplyEnvironment(*next) : Status(next.error());
    if (!told.ok()) {
      Complain(told.error());
      return core::kExitPeerLost;
    }
  }
}

}  // namespace lockstep::trainer
