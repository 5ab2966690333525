// Walking through a folder without exceptions: the iterators of std::filesystem throw where a
// folder below can't be read or vanishes meanwhile, if they are moved by a range-for.
#ifndef LOCKSTEP_BASE_FOLDER_H_
#define LOCKSTEP_BASE_FOLDER_H_

#include <filesystem>
#include <system_error>

namespace lockstep {

// Calls `visit` with each std::filesystem::directory_entry until the end or an error, which
// `failed` gets. A folder that is not there is one.
template <typename Visit>
void ForEachEntry(const std::filesystem::path& folder, Visit visit,
                  std::error_code* failed = nullptr) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::end(entry); entry.increment(error)) visit(*entry);
  if (failed != nullptr) *failed = error;
}

// Likewise with all that is below, in folders that can't be read excepted, until `visit` returns
// false.
template <typename Visit>
void ForEachEntryBelow(const std::filesystem::path& folder, Visit visit,
                       std::error_code* failed = nullptr) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(
      folder, std::filesystem::directory_options::skip_permission_denied, error);
  for (; !error && entry != std::filesystem::end(entry); entry.increment(error)) {
    if (!visit(*entry)) break;
  }
  if (failed != nullptr) *failed = error;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FOLDER_H_
