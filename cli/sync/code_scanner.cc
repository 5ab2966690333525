#include "cli/sync/code_scanner.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/crypto/sha256.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/process/process.h"
#include "base/time.h"
#include "cli/programs/ask.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIgnoreFile = ".lockstepignore";
constexpr size_t kMaxIgnoreFile = size_t{64} << 10;
constexpr Duration kGitPatience = seconds(20);
constexpr Duration kSettled = milliseconds(100);

int64_t Nanoseconds(const timespec& time) {
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

// Absent if there is no git, or `folder` is in no repository of this user's.
std::optional<std::vector<std::string>> AskGit(const std::string& folder,
                                               const std::vector<std::string>& options) {
  Question question{"git", {"git", "-C", folder, "ls-files", "-z"}};
  question.argv.insert(question.argv.end(), options.begin(), options.end());
  std::optional<std::string> text;
  const Status asked =
      AskAll({question}, {.patience = kGitPatience, .at_once = 1, .env = OwnEnvironment()},
             [&](size_t, const Result<Answer>& answer) {
               // What fails prints nothing but its words.
               const bool well =
                   answer.ok() && !answer->late && (!answer->text.empty() || answer->words.empty());
               if (well) text = answer->text;
             });
  if (!asked.ok() || !text) return std::nullopt;
  std::vector<std::string> names;
  for (size_t begin = 0; begin < text->size();) {
    const size_t end = std::min(text->find('\0', begin), text->size());
    names.push_back(text->substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

bool HasPartThatIsNeverCode(const std::string& path) {
  for (const fs::path& part : fs::path(path)) {
    if (IsNeverCode(part.string())) return true;
  }
  return false;
}

std::string MebiBytes(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

CodeScanner::CodeScanner(std::string folder, std::string stage, std::vector<std::string> without)
    : folder_(std::move(folder)), stage_(std::move(stage)), without_(std::move(without)) {}

bool CodeScanner::IsWithout(const std::string& path) const {
  const std::string absolute = folder_ + "/" + path;
  for (const std::string& each : without_) {
    if (absolute == each || absolute.starts_with(each + "/")) return true;
  }
  return false;
}

std::vector<CodeScanner::Named> CodeScanner::NamesWithoutGit() const {
  IgnoreRules rules = IgnoreRules::BuiltIn();
  rules.Append(rules_);
  std::vector<Named> names;
  std::vector<std::string> folders = {""};
  while (!folders.empty() && names.size() <= kMaxCodeFiles) {
    const std::string below = std::move(folders.back());
    folders.pop_back();
    ForEachEntry(folder_ + "/" + below, [&](const fs::directory_entry& entry) {
      const std::string name = entry.path().filename().string();
      const std::string path = (fs::path(below) / name).string();
      std::error_code error;
      const bool is_folder = entry.symlink_status(error).type() == fs::file_type::directory;
      if (IsNeverCode(name) || rules.Ignores(path, is_folder) || IsWithout(path)) return;
      if (is_folder) {
        folders.push_back(path);
      } else {
        names.push_back({path, false});
      }
    });
  }
  return names;
}

Result<std::vector<CodeScanner::Named>> CodeScanner::Names() const {
  const auto tracked = AskGit(folder_, {"--cached"});
  const auto others = tracked ? AskGit(folder_, {"--others", "--exclude-standard"}) : std::nullopt;
  if (!others) return NamesWithoutGit();
  std::vector<Named> names;
  std::set<std::string> seen;  // a file in conflict is listed more than once
  for (const auto* list : {&*tracked, &*others}) {
    for (const std::string& path : *list) {
      if (path.empty() || HasPartThatIsNeverCode(path) || IsWithout(path)) continue;
      if (rules_.Ignores(path, false) || !seen.insert(path).second) continue;
      names.push_back({path, list == &*tracked});
    }
  }
  return names;
}

Result<CodeFile> CodeScanner::Hash(const std::string& path) {
  const std::string absolute = folder_ + "/" + path;
  struct stat info{};
  if (stat(absolute.c_str(), &info) != 0) {
    return errno == ENOENT ? Error::NotFound(absolute + " is gone") : ErrnoError(absolute, errno);
  }
  if (!S_ISREG(info.st_mode)) return Error::Invalid(absolute + " is not a regular file");
  const Known now{Nanoseconds(info.st_ctim), Nanoseconds(info.st_mtim), info.st_ino, {}};
  const auto before = known_.find(path);
  if (before != known_.end() && before->second.changed == now.changed &&
      before->second.modified == now.modified && before->second.inode == now.inode &&
      before->second.file.size == static_cast<uint64_t>(info.st_size)) {
    return before->second.file;
  }
  const Result<std::string> text = ReadFile(absolute, kMaxCodeFile);
  if (!text.ok()) return text.error();
  Sha256 hash;
  hash.Add(std::as_bytes(std::span(*text)));
  CodeFile file{hash.Hex(), info.st_mode & 0777U, text->size()};
  const std::string staged = stage_ + "/" + file.sha256;
  std::error_code none;
  if (!fs::exists(staged, none)) {
    const Status written = WriteFileAtomically(staged, *text, {.mode = 0600});
    if (!written.ok()) return written.error();
  }
  // A file system's clock is coarse: what was written just now may change without a trace.
  timespec wall{};
  clock_gettime(CLOCK_REALTIME, &wall);
  if (Nanoseconds(wall) - now.changed > kSettled.count()) {
    known_[path] = {now.changed, now.modified, now.inode, file};
  } else {
    known_.erase(path);
  }
  return file;
}

Result<CodeScan> CodeScanner::Scan() {
  const Result<std::string> ignored = ReadFile(folder_ + "/" + kIgnoreFile, kMaxIgnoreFile);
  rules_ = ignored.ok() ? IgnoreRules::Parse(*ignored) : IgnoreRules();
  Result<std::vector<Named>> names = Names();
  if (!names.ok()) return names.error();
  if (names->size() > kMaxCodeFiles) {
    return Error::TooLarge(folder_ + " has over " + std::to_string(kMaxCodeFiles) +
                           " files; ignore some in .gitignore or " + kIgnoreFile);
  }
  CodeScan scan;
  uint64_t bytes = 0;
  for (const Named& each : *names) {
    const fs::path absolute = fs::path(folder_) / each.path;
    std::error_code error;
    const fs::file_status link = fs::symlink_status(absolute, error);
    if (!fs::exists(link)) continue;  // deleted, and git has yet to hear of it
    if (fs::is_symlink(link)) {
      const fs::path target = fs::weakly_canonical(absolute, error);
      if (error || !target.string().starts_with(folder_ + "/")) {
        scan.left_out.push_back(each.path + ": the link leads out of " + folder_);
        continue;
      }
      if (!fs::is_regular_file(target, error)) continue;  // of a folder, whose files are code
    } else if (!fs::is_regular_file(link)) {
      if (!fs::is_directory(link)) scan.left_out.push_back(each.path + ": is not a regular file");
      continue;  // a submodule's folder: its files are another repository's
    }
    if (!each.tracked && LooksSecret(absolute.filename().string())) {
      scan.left_out.push_back(each.path + ": looks like a secret; `git add` it to sync it");
      continue;
    }
    const uint64_t size = fs::file_size(absolute, error);
    if (!error && size > kMaxCodeFile) {
      return Error::TooLarge(each.path + " has " + MebiBytes(size) + ", over " +
                             MebiBytes(kMaxCodeFile) + "; ignore it in .gitignore or " +
                             kIgnoreFile);
    }
    if (!error) bytes += size;
    if (bytes > kMaxCodeBytes) {
      return Error::TooLarge("the code in " + folder_ + " has over " + MebiBytes(kMaxCodeBytes) +
                             "; ignore some in .gitignore or " + kIgnoreFile);
    }
    Result<CodeFile> file = Hash(each.path);
    if (!file.ok() && file.error().kind == ErrorKind::kNotFound) continue;
    if (!file.ok()) return file.error();
    scan.manifest.files.emplace(each.path, std::move(*file));
  }
  std::erase_if(known_,
                [&](const auto& each) { return !scan.manifest.files.contains(each.first); });
  return scan;
}

}  // namespace lockstep::cli
