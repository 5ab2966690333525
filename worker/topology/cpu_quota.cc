#include "worker/topology/cpu_quota.h"

#include <cstdlib>

#include "worker/topology/cgroup.h"
#include "worker/topology/small_file.h"

namespace lockstep::topology {
namespace {

// In CPUs; 0 when the numbers say "no limit" or make no sense.
double Ratio(const std::string& quota, const std::string& period) {
  const double quota_us = std::strtod(quota.c_str(), nullptr);
  const double period_us = std::strtod(period.c_str(), nullptr);
  return quota_us > 0 && period_us > 0 ? quota_us / period_us : 0;
}

double QuotaV2(const std::string& folder) {
  const std::string text = ReadSmallFile(folder + "/cpu.max").value_or("");
  const size_t blank = text.find(' ');
  return blank == std::string::npos ? 0 : Ratio(text.substr(0, blank), text.substr(blank + 1));
}

double QuotaV1(const std::string& folder) {
  return Ratio(ReadSmallFile(folder + "/cpu.cfs_quota_us").value_or(""),
               ReadSmallFile(folder + "/cpu.cfs_period_us").value_or(""));
}

}  // namespace

CpuQuota ReadCpuQuota(const std::string& root) {
  CpuQuota tightest{0, "no limit in any cgroup"};
  const auto consider = [&](double cpus, const std::string& file) {
    const bool tighter = cpus > 0 && (tightest.cpus == 0 || cpus < tightest.cpus);
    if (tighter) tightest = {cpus, file.substr(root.size())};
  };
  const CgroupFolders folders = FindCgroupFolders(root, "cpu");
  for (const std::string& folder : folders.v2) consider(QuotaV2(folder), folder + "/cpu.max");
  for (const std::string& folder : folders.v1) {
    consider(QuotaV1(folder), folder + "/cpu.cfs_quota_us");
  }
  return tightest;
}

}  // namespace lockstep::topology
