// PageStore: the pages of finished jobs in a folder, one file a job. PageKeeper writes it, the
// page's server reads it. FOLDER/NAMESPACE/NAME-UID.json is an object of JSON. Its first line has
// "kept", with name, uid, at and row, which the table of all jobs shows. The rest, "jobUID" and
// "view", is what `lockstep ui FILE` serves. A file is written beside its place and renamed, so a
// reader sees a whole one or none.
//
// Bounded by what Keep writes and Prune removes: kMostOfFile bytes a page, and Limits. A folder
// that cannot be read is an error, and never an empty one. One thread; its calls wait for the disk.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_PAGE_STORE_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_PAGE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
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
  static constexpr size_t kMostOfHead = size_t{8} << 10;
  static constexpr size_t kMostOfFile = size_t{2} << 20;
  static constexpr Duration kFresh = seconds(5);
  static constexpr uint64_t kLittleSpace = uint64_t{16} << 20;
  static constexpr int kMostGone = 16;  // pages that go for a new one on a full disk
  static constexpr Duration kOldTemporary = hours(1);

  struct Limits {
    size_t jobs = 100;                     // a namespace
    uint64_t bytes = uint64_t{256} << 20;  // a namespace
    size_t in_all = 10'000;                // pages of all namespaces
    Duration age = hours(24 * 30);
  };
  struct Page {
    kube::ObjectName job;
    std::string uid;
    WallTime at{};    // when the job ended
    std::string row;  // as FleetRow, with "kept"
    std::string path;
    size_t lines = 0;  // of its logs
    uint64_t bytes = 0;
  };
  // Writes a file whole or not at all.
  using Write = std::function<Status(const std::string& path, const std::string& text)>;

  explicit PageStore(std::string folder, Write write = WriteDurably)
      : folder_(std::move(folder)), write_(std::move(write)) {}

  // Learns what was written and removed since, if the last time was kFresh ago. A part of the
  // folder cannot be read: the error, and what was known of that part stays.
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
  // `row`, `view`: JSON objects. A page of this job that has as many lines stays, and so does one
  // that cannot be read now. A view that is too large loses the older half of each rank's lines,
  // until it is not. On a full disk, older pages go: of the namespace with the most bytes first.
  Status Keep(const kube::ObjectName& job, const std::string& uid, WallTime at,
              const std::string& row, const std::string& view);
  // Removes what is beyond `limits`, the oldest first; what cannot be removed stays. How many went.
  size_t Prune(const Limits& limits, WallTime now);
  // Removes what writers that were killed have left, and folders of namespaces without pages.
  void Sweep() const;
  // Whether less than kLittleSpace is free, so that pages may be missing.
  bool IsFull() const;

 private:
  using Pages = std::map<std::string, Page>;

  static Status WriteDurably(const std::string& path, const std::string& text);
  Status ReadNamespace(const std::string& name_space, std::set<std::string>* seen);
  // The oldest page of the namespace with the most bytes goes, if its job ended before `at`.
  bool MakeRoom(WallTime at);
  bool Remove(const std::string& file);

  std::string folder_;
  Write write_;
  Pages pages_;                    // by NAMESPACE/FILE
  std::set<std::string> foreign_;  // files that are no kept pages
  Time refreshed_{};
  bool ever_ = false;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_PAGE_STORE_H_
