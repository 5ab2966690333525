// PageStore: the pages of finished jobs in a folder, one file a job. PageKeeper writes it, the
// page's server reads it. A file is FOLDER/NAMESPACE/NAME-UID.json:
//
//   {"kept":{"name":...,"uid":...,"at":...,"row":{...}},
//   "jobUID":...,"view":{...}}
//
// The first line is what the table of all jobs shows; `lockstep ui FILE` serves the rest. A file is
// written beside its place and renamed, so a reader sees a whole one or none.
//
// Bounded: kMostFiles files are known, kMostOfHead bytes of each. Others are as if they were not
// there. One thread; its calls wait for the disk.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_PAGE_STORE_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_PAGE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/wall_time.h"
#include "operator/kube/views.h"

namespace lockstep::cli {

class PageStore {
 public:
  static constexpr size_t kMostFiles = 10'000;
  static constexpr size_t kMostOfHead = size_t{8} << 10;
  static constexpr size_t kMostOfFile = size_t{32} << 20;
  static constexpr Duration kFresh = seconds(5);
  static constexpr uint64_t kLittleSpace = uint64_t{16} << 20;

  struct Limits {
    size_t jobs = 100;  // a namespace
    Duration age = hours(24 * 30);
  };
  struct Page {
    kube::ObjectName job;
    std::string uid;
    WallTime at{};    // when the job ended
    std::string row;  // as FleetRow, with "kept"
    std::string path;
  };

  explicit PageStore(std::string folder) : folder_(std::move(folder)) {}

  // Learns what was written and removed since, if the last time was kFresh ago. The folder cannot
  // be read: the error, and what was known stays.
  Status Refresh(Time now);

  // Of the job of this name that ended last; null: none is kept. Lives until the next Refresh, Keep
  // or Prune.
  const Page* Find(const kube::ObjectName& job) const;
  // Of this very job.
  const Page* Find(const kube::ObjectName& job, const std::string& uid) const;
  // Of all jobs of the namespace, or of all; the newest of each name.
  std::vector<const Page*> List(const std::string& name_space) const;
  static Result<std::string> ReadView(const Page& page);

  // Whether the page of a job that ended then would stay.
  bool Wants(const std::string& name_space, WallTime at, const Limits& limits, WallTime now) const;
  // `row`, `view`: JSON objects. Overwrites the page of the same job.
  Status Keep(const kube::ObjectName& job, const std::string& uid, WallTime at,
              const std::string& row, const std::string& view);
  // Removes what is beyond `limits`, the oldest first; what cannot be removed stays. How many went.
  size_t Prune(const Limits& limits, WallTime now);
  // Whether less than kLittleSpace is free, so that pages may be missing.
  bool IsFull() const;

 private:
  void ReadNamespace(const std::string& name_space, std::set<std::string>* seen);

  std::string folder_;
  std::map<std::string, Page> pages_;  // by NAMESPACE/FILE
  std::set<std::string> foreign_;      // files that are no kept pages
  Time refreshed_{};
  bool ever_ = false;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_PAGE_STORE_H_
