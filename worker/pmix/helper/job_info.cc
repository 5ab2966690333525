#include "worker/pmix/helper/job_info.h"

#include <cstdlib>
#include <memory>

namespace lockstep::pmix {
namespace {

using Regex = std::unique_ptr<char, decltype(&std::free)>;

// The ranks of one machine: "4,5,6,7".
std::string RanksOf(const JobShape& shape, uint32_t machine) {
  std::string ranks;
  for (uint32_t l = 0; l < shape.processes; ++l) {
    if (l > 0) ranks += ',';
    ranks += std::to_string(machine * shape.processes + l);
  }
  return ranks;
}

pmix_status_t AddMaps(const JobShape& shape, InfoList* info) {
  std::string machines;
  std::string ranks;
  for (uint32_t m = 0; m < shape.machines; ++m) {
    machines.append(m > 0 ? "," : "").append(MachineName(m));
    ranks.append(m > 0 ? ";" : "").append(RanksOf(shape, m));
  }
  char* text = nullptr;
  pmix_status_t status = PMIx_generate_regex(machines.c_str(), &text);
  const Regex nodes(text, &std::free);
  if (status != PMIX_SUCCESS) return status;
  text = nullptr;
  status = PMIx_generate_ppn(ranks.c_str(), &text);
  const Regex processes(text, &std::free);
  if (status != PMIX_SUCCESS) return status;
  info->Add(PMIX_NODE_MAP, nodes.get(), PMIX_REGEX);
  info->Add(PMIX_PROC_MAP, processes.get(), PMIX_REGEX);
  return PMIX_SUCCESS;
}

void AddRanks(const JobShape& shape, InfoList* info) {
  for (uint32_t rank = 0; rank < shape.machines * shape.processes; ++rank) {
    const auto local = static_cast<uint16_t>(rank % shape.processes);
    const uint32_t machine = rank / shape.processes;
    InfoList of_rank;
    of_rank.AddRank(PMIX_RANK, rank);
    of_rank.Add(PMIX_LOCAL_RANK, &local, PMIX_UINT16);
    of_rank.Add(PMIX_NODE_RANK, &local, PMIX_UINT16);
    of_rank.Add(PMIX_NODEID, machine);
    of_rank.Add(PMIX_APPNUM, 0U);
    of_rank.AddRank(PMIX_GLOBAL_RANK, rank);
    of_rank.AddRank(PMIX_APP_RANK, rank);
    of_rank.Add(PMIX_HOSTNAME, MachineName(machine));
    info->Add(PMIX_PROC_DATA, of_rank);
  }
}

}  // namespace

InfoList::~InfoList() {
  for (pmix_info_t& info : infos_) PMIX_INFO_DESTRUCT(&info);
}

void InfoList::Add(const char* key, const void* value, pmix_data_type_t type) {
  infos_.emplace_back();
  PMIX_INFO_LOAD(&infos_.back(), key, value, type);
}

void InfoList::Add(const char* key, InfoList& list) {
  pmix_data_array_t array{PMIX_INFO, list.size(), list.data()};
  Add(key, &array, PMIX_DATA_ARRAY);
}

std::string MachineName(uint32_t machine) { return "machine-" + std::to_string(machine); }

pmix_status_t DescribeJob(const JobShape& shape, const std::string& name, InfoList* info) {
  const uint32_t world = shape.machines * shape.processes;
  for (const char* key : {PMIX_UNIV_SIZE, PMIX_JOB_SIZE, PMIX_MAX_PROCS}) info->Add(key, world);
  for (const char* key : {PMIX_LOCAL_SIZE, PMIX_NODE_SIZE}) info->Add(key, shape.processes);
  info->Add(PMIX_NUM_NODES, shape.machines);
  info->Add(PMIX_JOB_NUM_APPS, 1U);
  info->Add(PMIX_LOCAL_PEERS, RanksOf(shape, shape.machine));
  info->AddRank(PMIX_LOCALLDR, shape.machine * shape.processes);
  info->Add(PMIX_JOBID, name);
  for (const char* key : {PMIX_NSDIR, PMIX_TMPDIR}) info->Add(key, shape.folder);
  const pmix_status_t status = AddMaps(shape, info);
  if (status == PMIX_SUCCESS) AddRanks(shape, info);
  return status;
}

}  // namespace lockstep::pmix
