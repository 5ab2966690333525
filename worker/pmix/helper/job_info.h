// What OpenPMIx is told of a job: how many ranks there are, and which of them share a machine.
#ifndef LOCKSTEP_WORKER_PMIX_HELPER_JOB_INFO_H_
#define LOCKSTEP_WORKER_PMIX_HELPER_JOB_INFO_H_

#include <pmix_server.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::pmix {

// Keys and values; the values are copied.
class InfoList {
 public:
  InfoList() = default;
  ~InfoList();
  InfoList(const InfoList&) = delete;
  InfoList& operator=(const InfoList&) = delete;

  void Add(const char* key, const void* value, pmix_data_type_t type);
  void Add(const char* key, uint32_t value) { Add(key, &value, PMIX_UINT32); }
  void AddRank(const char* key, pmix_rank_t value) { Add(key, &value, PMIX_PROC_RANK); }
  void Add(const char* key, const std::string& value) { Add(key, value.c_str(), PMIX_STRING); }
  // As one value that is an array of them.
  void Add(const char* key, InfoList& list);

  pmix_info_t* data() { return infos_.data(); }
  size_t size() const { return infos_.size(); }

 private:
  std::vector<pmix_info_t> infos_;
};

struct JobShape {
  uint32_t machine = 0;
  uint32_t machines = 1;
  uint32_t processes = 1;  // of each machine
  std::string folder;      // of this machine's sockets and files
};

std::string MachineName(uint32_t machine);

// Rank r is on machine r / processes. Not PMIX_SUCCESS: the library's word for what went wrong.
pmix_status_t DescribeJob(const JobShape& shape, const std::string& name, InfoList* info);

}  // namespace lockstep::pmix

#endif  // LOCKSTEP_WORKER_PMIX_HELPER_JOB_INFO_H_
