// What to change if NCCL moves data between machines by TCP although the machine has RDMA, which is
// ten times as fast and needs no CPU.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_TCP_WARNING_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_TCP_WARNING_H_

#include <string>
#include <vector>

#include "worker/topology/nics.h"
#include "worker/trainer/collectives/collectives.h"

namespace lockstep::trainer {

// Of this process's environment; "" if it is not set.
struct NcclVariables {
  std::string net = {};         // NCCL_NET: the network by name
  std::string ib_disable = {};  // NCCL_IB_DISABLE
  std::string ib_hca = {};      // NCCL_IB_HCA: RDMA devices

  static NcclVariables Read();
};

// "" if there is nothing to change: another network is used, the machine has no RDMA, or
// `variables` ask for TCP.
std::string TcpWarning(const collectives::MachineNetwork& network,
                       const std::vector<topology::ActiveRdma>& devices,
                       const NcclVariables& variables);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_TCP_WARNING_H_
