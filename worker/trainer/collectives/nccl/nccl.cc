// ConnectNccl: checks this rank's GPU and NCCL, compares them with the other ranks', then makes the
// communicator.
#include <memory>
#include <string>
#include <utility>

#include "worker/trainer/collectives/nccl/nccl_agreement.h"
#include "worker/trainer/collectives/nccl/nccl_handshake.h"
#include "worker/trainer/collectives/nccl/nccl_log.h"
#include "worker/trainer/collectives/nccl/nccl_transport.h"
#include "worker/trainer/collectives/store/failure.h"

namespace lockstep::collectives {
namespace {

struct Found {
  std::shared_ptr<const NcclLibrary> library;
  NcclTransport::Parts parts;
};

Result<Found> Find(const Options& options, const NcclLimits& limits) {
  if (options.without_gpu) return *options.without_gpu;
  if (options.algorithm == core::Reduce::kRing)
    return Error::NotFound("Ring needs Gloo; on NCCL, write reduce: Tree or Nccl");
  Result<std::shared_ptr<const NcclLibrary>> library = NcclLibrary::Load();
  if (!library.ok()) return library.error();
  Result<std::shared_ptr<const CudaDevice>> device = CudaDevice::Open(options.local_rank);
  if (!device.ok()) return device.error();
  Result<NcclTransport::Parts> parts = NcclTransport::Prepare(*device, limits);
  if (!parts.ok()) return parts.error();
  Found found{std::move(*library), std::move(*parts)};
  // Alone, there is nothing to add.
  if (options.algorithm != core::Reduce::kTree || options.world == 1) return found;
  Result<std::unique_ptr<SliceSum>> kernel = Error::NotFound("this program has no kernels");
  if (options.slice_sum) kernel = options.slice_sum(*device);
  if (!kernel.ok()) {
    if (kernel.error().kind != ErrorKind::kNotFound) return kernel.error();
    return Error::NotFound(
        kernel.error().message +
        "; without kernels only NCCL can sum (reduce: Nccl), and bits depend on the bucket size");
  }
  Result<TreeSum> tree = TreeSum::Make(*device, std::move(*kernel), options.world, limits.staging);
  if (!tree.ok()) return tree.error();
  found.parts.tree.emplace(std::move(*tree));
  return found;
}

NcclReport ReportOf(const Result<Found>& found, const Options& options) {
  if (!found.ok()) return found.error();
  return NcclPart{.version = found->library->version(),
                  .local = NcclRanks::UsableLocal(options.world, options.local_world)};
}

Result<nccl::UniqueId> MakeId(const Found& found) {
  if (Status entered = found.parts.device->Enter(); !entered.ok()) return entered.error();
  nccl::UniqueId id{};
  const nccl::Code code = found.library->api().get_unique_id(&id);
  if (code == nccl::Code::kSuccess) return id;
  return found.library->Failure("ncclGetUniqueId on rank 0", code, nullptr,
                                found.parts.device->driver().version());
}

// All ranks have this id; some may fail or be gone before they are through.
Status Init(NcclTransport& transport, const nccl::UniqueId& id, const Options& options,
            Rendezvous& rendezvous, Time deadline) {
  NcclAgreement agreement(rendezvous, options.identity, deadline, [&] { transport.Abort(); });
  const Status made = agreement.Agree(transport.Init(id, deadline));
  // A communicator that hangs in its initialisation can only be aborted.
  if (!made.ok()) transport.Abort();
  return made;
}

}  // namespace

Result<std::unique_ptr<Transport>> ConnectNccl(const Options& options, Rendezvous& rendezvous,
                                               Time deadline, const NcclLimits& limits) {
  Result<Found> found = Find(options, limits);
  const Result<NcclStart> start = CallRoll(
      rendezvous, options.identity, ReportOf(found, options), [&] { return MakeId(*found); },
      deadline);
  if (!start.ok()) return found.ok() ? AtPeers(start.error()) : start.error();
  const NcclRanks ranks{.rank = options.rank, .world = options.world, .local = start->local};
  auto transport = std::make_unique<NcclTransport>(std::move(found->parts),
                                                   std::move(found->library), ranks, limits);
  if (Status made = Init(*transport, start->id, options, rendezvous, deadline); !made.ok())
    return made.error();
  if (options.local_world < options.world) transport->SetNetwork(NetworkInLog(NcclLogText()));
  return std::unique_ptr<Transport>(std::move(transport));
}

Result<std::unique_ptr<Transport>> ConnectNccl(const Options& options, Rendezvous& rendezvous,
                                               Time deadline) {
  return ConnectNccl(options, rendezvous, deadline, NcclLimits{});
}

}  // namespace lockstep::collectives
