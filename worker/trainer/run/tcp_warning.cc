#include "worker/trainer/run/tcp_warning.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace lockstep::trainer {

namespace {

using topology::ActiveRdma;

std::string NcclVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string NamesOf(const std::vector<ActiveRdma>& devices) {
  std::string names;
  for (const ActiveRdma& device : devices) names += (names.empty() ? "" : ", ") + device.name;
  return names;
}

// Of devices that the process may open.
std::string AdviceOn(const std::vector<ActiveRdma>& devices, const NcclVariables& variables) {
  if (std::ranges::all_of(devices, &ActiveRdma::efa)) {
    return "EFA needs NCCL's plugin aws-ofi-nccl (libnccl-net-ofi.so) in the image";
  }
  if (!variables.ib_hca.empty()) {
    return "check that NCCL_IB_HCA=" + variables.ib_hca +
           " names one of them, and that the image has libibverbs.so.1 (rdma-core)";
  }
  return "check that the image has libibverbs.so.1 (rdma-core)";
}

}  // namespace

NcclVariables NcclVariables::Read() {
  return {.net = NcclVariable("NCCL_NET"),
          .ib_disable = NcclVariable("NCCL_IB_DISABLE"),
          .ib_hca = NcclVariable("NCCL_IB_HCA")};
}

std::string TcpWarning(const collectives::MachineNetwork& network,
                       const std::vector<ActiveRdma>& devices, const NcclVariables& variables) {
  const bool asked =
      variables.net == "Socket" || (!variables.ib_disable.empty() && variables.ib_disable != "0");
  if (!network.by_tcp() || devices.empty() || asked) return "";
  const std::string warning =
      "NCCL moves data between machines by TCP, but this machine has RDMA (" + NamesOf(devices) +
      "): ";
  std::vector<ActiveRdma> openable;
  std::ranges::copy_if(devices, std::back_inserter(openable), &ActiveRdma::openable);
  if (openable.empty()) {
    return warning +
           "this container has no device of it. Ask for it in resourcesPerMachine, as in rdma/hca: "
           "1 (examples/infiniband.yaml)";
  }
  return warning + AdviceOn(openable, variables) +
         (network.why_tcp.empty() ? "" : "; NCCL says: " + network.why_tcp);
}

}  // namespace lockstep::trainer
