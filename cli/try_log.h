// What `lockstep plan --try-log FILE` shows: the progress that an agent would find in an output
// that was saved, and why it does not believe other lines that look alike.
#ifndef LOCKSTEP_CLI_TRY_LOG_H_
#define LOCKSTEP_CLI_TRY_LOG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/json.h"
#include "core/scan/line_cutter.h"
#include "core/scan/progress_scanner.h"

namespace lockstep::cli {

// Reads one output, in pieces of any size. Lines with the prefix of `lockstep run` ("[m0 r3] ") are
// taken by rank.
class TryLog {
 public:
  explicit TryLog(std::shared_ptr<const std::vector<core::CompiledPattern>> patterns = nullptr);

  void Feed(std::string_view bytes);
  void Finish();

  // `name`: of the file.
  std::string Text(const std::string& name) const;
  OrderedJson ToJson() const;

 private:
  static constexpr int kMostRanks = 1024;

  void OnLine(std::string_view line);
  const core::ProgressScanner* Best(int* rank) const;

  std::shared_ptr<const std::vector<core::CompiledPattern>> patterns_;
  core::LineCutter cutter_{Duration::zero()};
  std::map<int, core::ProgressScanner> ranks_;  // -1: lines without a prefix
  uint64_t lines_ = 0;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TRY_LOG_H_
