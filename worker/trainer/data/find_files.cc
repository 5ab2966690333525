#include "worker/trainer/data/find_files.h"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

namespace lockstep::trainer {

namespace {

namespace fs = std::filesystem;

Error NoMatch(const std::string& pattern) {
  return Error::NotFound("nothing matches " + pattern +
                         "; check the path, and that its volume is mounted in every process");
}

// Adds what `pattern` matches to `found`.
Status Match(const std::string& pattern, std::set<std::string>* found) {
  // A name may hold characters that a glob gives a meaning. Opening says what to do about a folder
  // that may not be entered.
  std::error_code code;
  bool exists = fs::exists(fs::symlink_status(pattern, code));
  if (exists || code == std::errc::permission_denied) {
    found->insert(pattern);
    return {};
  }
  glob_t matches{};
  int result = glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &matches);
  int reason = errno;
  for (size_t i = 0; result == 0 && i < matches.gl_pathc; ++i) found->insert(matches.gl_pathv[i]);
  globfree(&matches);
  if (result == GLOB_NOMATCH) return NoMatch(pattern);
  if (result == GLOB_ABORTED) {
    return Error::Denied("a folder on the way to " + pattern +
                         " can't be read: " + std::system_category().message(reason) +
                         "; change its permissions, or name the files");
  }
  if (result != 0) return ErrnoError("looking for " + pattern, ENOMEM);
  return {};
}

}  // namespace

Result<std::vector<std::string>> FindFiles(std::span<const std::string> globs) {
  if (globs.empty()) return Error::Invalid("no files are given; name at least one");
  std::set<std::string> found;
  for (const std::string& pattern : globs) {
    Status matched = Match(pattern, &found);
    if (!matched.ok()) return matched.error();
  }
  std::set<std::string> seen;
  std::vector<std::string> files;
  for (const std::string& path : found) {
    std::error_code code;
    fs::path real = fs::canonical(path, code);
    // A broken link is kept, so that opening it gives the error.
    if (code || seen.insert(real.string()).second) files.push_back(path);
  }
  return files;
}

}  // namespace lockstep::trainer
