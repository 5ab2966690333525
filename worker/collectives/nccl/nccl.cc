// ConnectNccl: checks this rank's GPU and NCCL, compares them with the other ranks', then makes the
// communicator.
#include <memory>
#include <string>
#include <utility>

#include "worker/collectives/nccl/nccl_agreement.h"
#include "worker/collectives/nccl/nccl_handshake.h"
#include "worker/collectives/nccl/nccl_transport.h"

namespace lockstep::collectives {
namespace {

struct Found {
  std::shared_ptr<const NcclLibrary> library;
  NcclTransport::Parts parts;
};

Result<Found> Find(const Options& options, const NcclLimits& limits) {
  Result<std::shared_ptr<const NcclLibrary>> library = NcclLibrary::Load();
  if (!library.ok()) return library.error();
  Result<std::shared_ptr<const CudaDevice>> device = CudaDevice::Open(options.local_rank);
  if (!device.ok()) return device.error();
  Result<NcclTransport::Parts> parts = NcclTransport::Prepare(*device, limits);
  if (!parts.ok()) return parts.error();
  return Found{std::move(*library), std::move(*parts)};
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
  const Status made = agreement.Agree(transport.Init(id, options.rank, deadline));
  // A communicator that hangs in its initialisation can only be aborted.
  if (!made.ok()) transport.Abort();
  return made;
}

}  // namespace

Result<std::unique_ptr<Transport>> ConnectNccl(const Options& options, Rendezvous& rendezvous,
                                               Time deadline, const NcclLimits& limits) {
  Result<Found> found = Find(options, limits);
  const NcclReport report =
      found.ok() ? NcclReport(found->library->version()) : NcclReport(found.error());
  Result<nccl::UniqueId> id =
      CallRoll(rendezvous, options.identity, report, [&] { return MakeId(*found); }, deadline);
  if (!id.ok()) return id.error();
  auto transport = std::make_unique<NcclTransport>(
      std::move(found->parts), std::move(found->library), options.world, limits);
  if (Status made = Init(*transport, *id, options, rendezvous, deadline); !made.ok())
    return made.error();
  return std::unique_ptr<Transport>(std::move(transport));
}

Result<std::unique_ptr<Transport>> ConnectNccl(const Options& options, Rendezvous& rendezvous,
                                               Time deadline) {
  return ConnectNccl(options, rendezvous, deadline, NcclLimits{});
}

}  // namespace lockstep::collectives
