#include "worker/trainer/collectives/group/connect.h"

#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "base/text/ascii.h"
#include "worker/ras/nccl_ras.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/collectives/cuda/cuda_driver.h"
#include "worker/trainer/collectives/group/alone.h"
#include "worker/trainer/collectives/group/communicator.h"
#include "worker/trainer/collectives/store/socket.h"
#include "worker/trainer/collectives/store/store_client.h"
#include "worker/trainer/collectives/store/store_server.h"
#include "worker/trainer/collectives/transport.h"

namespace lockstep::collectives {
namespace {

constexpr size_t kMaxIdentity = 512;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The number in variable `name`, within [low, high]; `fallback` where it is not set.
Result<int> Number(const char* name, int low, int high, std::optional<int> fallback) {
  const std::string text = Environment(name);
  if (text.empty() && fallback) return *fallback;
  const std::optional<int> value = ParseNumber<int>(text);
  if (!value || *value < low || *value > high) {
    return Error::Invalid(std::string(name) + " is \"" + text + "\"; it must be a number from " +
                          std::to_string(low) + " to " + std::to_string(high));
  }
  return *value;
}

Status ReadMaster(Options* options) {
  options->master_address = Environment("MASTER_ADDR");
  if (options->master_address == "localhost") options->master_address = "127.0.0.1";
  if (!IsAddress(options->master_address)) {
    return Error::Invalid("MASTER_ADDR is \"" + options->master_address +
                          "\"; it must be rank 0's IP address");
  }
  Result<int> port = Number("MASTER_PORT", 1, 65535, std::nullopt);
  if (!port.ok()) return port.error();
  options->master_port = static_cast<uint16_t>(*port);
  return {};
}

Status Check(const Options& options) {
  if (options.world < 1 || options.rank < 0 || options.rank >= options.world) {
    return Error::Invalid("rank " + std::to_string(options.rank) + " is not in a world of " +
                          std::to_string(options.world));
  }
  if (options.algorithm == core::Reduce::kNccl && options.backend != Backend::kNccl) {
    return Error::Invalid(
        "reduce: Nccl is NCCL's own sum and needs backend: Nccl; on Gloo, write reduce: Tree or "
        "Ring");
  }
  if (options.identity.size() > kMaxIdentity) {
    return Error::Invalid("the identity may have " + std::to_string(kMaxIdentity) + " bytes");
  }
  if (options.world > 1 && (!IsAddress(options.master_address) || options.master_port == 0)) {
    return Error::Invalid("a world above one needs rank 0's IP address and port; there is \"" +
                          options.master_address + "\" and " + std::to_string(options.master_port));
  }
  return {};
}

// Of a late operation, asked in rank 0's process; "" where NCCL does not run here, or its RAS is
// off.
std::string WhatRasKnows() {
  const auto address = ras::ListenerOf(getpid(), Environment("NCCL_RAS_ADDR"));
  if (!address) return "";
  // The beginning of an answer that comes too late is told in time.
  const auto answer = ras::Ask(*address, BootTime() + kWitnessTime - milliseconds(200));
  const std::string findings = answer ? ras::Findings(answer->text) : "";
  return findings.empty() ? "" : "NCCL's RAS: " + findings;
}

// Sets `parts`' transport: NCCL where it is, or Gloo. All ranks decide alike: ConnectNccl ends in
// the same way on all.
Status ConnectTransport(const Options& options, Rendezvous& rendezvous, Time deadline,
                        QueueCommunicator::Parts* parts) {
  if (options.backend != Backend::kGloo) {
    Result<std::unique_ptr<Transport>> nccl = ConnectNccl(options, rendezvous, deadline);
    if (nccl.ok()) {
      parts->transport = std::move(*nccl);
      return {};
    }
    if (nccl.error().kind != ErrorKind::kNotFound || options.backend == Backend::kNccl) {
      return nccl.error();
    }
    // Without a driver nobody expects NCCL.
    if (CudaDriver::IsInstalled()) parts->note = ", not NCCL: " + nccl.error().message;
  }
  if (options.world == 1) {
    parts->transport = std::make_unique<AloneTransport>();
    return {};
  }
  Result<std::unique_ptr<Transport>> gloo = ConnectGloo(options, rendezvous, deadline);
  if (!gloo.ok()) return gloo.error();
  parts->transport = std::move(*gloo);
  return {};
}

Result<std::unique_ptr<Communicator>> ConnectAlone(const Options& options, Time deadline) {
  AloneRendezvous rendezvous;
  QueueCommunicator::Parts parts;
  Status connected = ConnectTransport(options, rendezvous, deadline, &parts);
  if (!connected.ok()) return connected.error();
  return std::unique_ptr<Communicator>(
      std::make_unique<QueueCommunicator>(options, std::move(parts)));
}

}  // namespace

Result<Options> OptionsFromEnvironment() {
  Options options;
  Result<int> local = Number("LOCAL_RANK", 0, 1 << 20, 0);
  if (!local.ok()) return local.error();
  options.local_rank = *local;
  Result<int> local_world = Number("LOCAL_WORLD_SIZE", 1, 1 << 20, 1);
  if (!local_world.ok()) return local_world.error();
  options.local_world = *local_world;
  options.interface = Environment("GLOO_SOCKET_IFNAME");
  options.identity = Environment("LOCKSTEP_JOB_UID") + "/" + Environment("LOCKSTEP_GENERATION");
  if (Environment("RANK").empty()) return options;
  Result<int> world = Number("WORLD_SIZE", 1, 1 << 20, std::nullopt);
  if (!world.ok()) return world.error();
  Result<int> rank = Number("RANK", 0, *world - 1, std::nullopt);
  if (!rank.ok()) return rank.error();
  options.rank = *rank;
  options.world = *world;
  if (*world == 1) return options;
  if (Status master = ReadMaster(&options); !master.ok()) return master.error();
  return options;
}

Result<std::unique_ptr<Communicator>> Connect(const Options& options) {
  if (Status checked = Check(options); !checked.ok()) return checked.error();
  const Time deadline = BootTime() + options.connect_timeout;
  if (options.world == 1) return ConnectAlone(options, deadline);
  QueueCommunicator::Parts parts;
  if (options.rank == 0) {
    Result<std::unique_ptr<StoreServer>> server =
        StoreServer::Start({.address = options.master_address,
                            .port = options.master_port,
                            .world = options.world,
                            .identity = options.identity,
                            .deadline = deadline,
                            .witness = WhatRasKnows});
    if (!server.ok()) return server.error();
    parts.server = std::move(*server);
  }
  Result<std::unique_ptr<StoreClient>> store =
      StoreClient::Connect({.address = options.master_address,
                            .port = options.master_port,
                            .rank = options.rank,
                            .world = options.world,
                            .identity = options.identity,
                            .deadline = deadline,
                            .given_up = options.given_up});
  if (!store.ok()) return store.error();
  parts.store = std::move(*store);
  Status connected = ConnectTransport(options, *parts.store, deadline, &parts);
  if (!connected.ok()) return connected.error();
  return std::unique_ptr<Communicator>(
      std::make_unique<QueueCommunicator>(options, std::move(parts)));
}

bool ThreadsLeftBehind() { return CudaDevice::AllAbandoned(); }

}  // namespace lockstep::collectives
