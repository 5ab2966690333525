#include "core/plan/leftovers.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

TEST(IsLeftover, WhatALauncherTellsItsProcesses) {
  for (const char* name : {"SLURM_PROCID",
                           "FLUX_TASK_RANK",
                           "PMI_RANK",
                           "PMI_FD",
                           "PMI_PORT",
                           "PMIX_RANK",
                           "PMIX_NAMESPACE",
                           "PMIX_SERVER_URI41",
                           "PRTE_LAUNCHED",
                           "OMPI_COMM_WORLD_RANK",
                           "OMPI_UNIVERSE_SIZE",
                           "OMPI_MCA_ess_base_jobid",
                           "OMPI_MCA_orte_hnp_uri",
                           "MPI_LOCALRANKID",
                           "I_MPI_HYDRA_HOST_FILE",
                           "HOROVOD_RANK",
                           "HOROVOD_GLOO_RENDEZVOUS_ADDR",
                           "JAX_COORDINATOR_ADDRESS",
                           "JAX_PROCESS_ID",
                           "TF_CONFIG"}) {
    EXPECT_TRUE(IsLeftover(name)) << name;
  }
}

TEST(IsLeftover, SettingsOfTheSameLibrariesAreNot) {
  for (const char* name :
       {"OMPI_MCA_btl", "OMPI_MCA_btl_tcp_if_include", "OMPI_ALLOW_RUN_AS_ROOT", "PMIX_MCA_gds",
        "I_MPI_FABRICS", "HOROVOD_FUSION_THRESHOLD", "HOROVOD_LOG_LEVEL", "JAX_PLATFORMS",
        "JAX_ENABLE_X64", "TF_CPP_MIN_LOG_LEVEL", "TF_CONFIGURE_IOS", "NCCL_DEBUG", "PATH"}) {
    EXPECT_FALSE(IsLeftover(name)) << name;
  }
}

}  // namespace
}  // namespace lockstep::core
