#include "cli/cluster/page/page_store.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/folder.h"
#include "base/text/json.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".json";
constexpr std::string_view kTemporary = ".lockstep-";  // of WriteFileAtomically
constexpr mode_t kOwnersAndGroup = 0640;               // a log may hold secrets

// Names of Kubernetes are such words. Others never become paths.
bool IsWord(std::string_view word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !word.empty() && word.front() != '.' && std::ranges::all_of(word, plain);
}

// Invalid: it is no kept page.
Result<PageStore::Page> ReadPage(const std::string& name_space, const std::string& path) {
  const Result<UniqueFd> file = OpenRegularFile(path);
  if (!file.ok()) return file.error();
  struct stat status{};
  if (fstat(file->get(), &status) != 0) return ErrnoError("looking at " + path, errno);
  std::array<char, PageStore::kMostOfHead> head{};
  const ssize_t got = pread(file->get(), head.data(), head.size(), 0);
  if (got < 0) return ErrnoError("reading " + path, errno);
  if (got < std::min<ssize_t>(status.st_size, std::ssize(head))) {
    return Error::Unavailable(path + " was read in part only");
  }
  const std::string_view begin(head.data(), static_cast<size_t>(got));
  const Error foreign = Error::Invalid(path + " is not a kept page");
  const size_t end = begin.find(",\n");  // of the first line
  if (end == std::string_view::npos) return foreign;
  const OrderedJson text = ParseOrderedJson(std::string(begin.substr(0, end)) + "}");
  if (!text.is_object() || !text.contains("kept") || !text["kept"].is_object()) return foreign;
  const OrderedJson& kept = text["kept"];
  for (const char* name : {"name", "uid", "at"}) {
    if (!kept.contains(name) || !kept[name].is_string()) return foreign;
  }
  const Result<WallTime> at = ParseWallTime(std::string(kept["at"]));
  if (!at.ok() || !kept.contains("row") || !kept["row"].is_object()) return foreign;
  const auto lines = kept.find("lines");
  OrderedJson row = kept["row"];
  row["kept"] = true;
  return PageStore::Page{
      .job = {name_space, kept["name"]},
      .uid = kept["uid"],
      .at = *at,
      .row = DumpJson(row),
      .path = path,
      .lines = lines != kept.end() && lines->is_number_unsigned() ? lines->get<size_t>() : 0,
      .bytes = static_cast<uint64_t>(status.st_size)};
}

// A view as it is written.
struct Bounded {
  std::string text;
  size_t lines = 0;
};

Bounded Bound(const std::string& view, size_t most) {
  OrderedJson parts = ParseOrderedJson(view);
  Bounded bounded{.text = view};
  const auto logs = parts.is_object() ? parts.find("logs") : parts.end();
  if (logs == parts.end() || !logs->is_object()) return bounded;
  for (;;) {
    bounded.lines = 0;
    for (const OrderedJson& rank : *logs) bounded.lines += rank.size();
    if (bounded.text.size() <= most || bounded.lines == 0) return bounded;
    for (OrderedJson& rank : *logs) {
      const size_t gone = (rank.size() + 1) / 2;
      rank.erase(rank.begin(), rank.begin() + static_cast<ptrdiff_t>(gone));
    }
    bounded.text = DumpJson(parts);
  }
}

bool IsOfNoSpace(const Error& error) {
  return std::ranges::any_of(std::array{ENOSPC, EDQUOT}, [&](int code) {
    return error.message.ends_with(std::strerror(code));
  });
}

std::string FileOf(const kube::ObjectName& job, const std::string& uid) {
  return job.name_space + "/" + job.name + "-" + uid + std::string(kEnding);
}

}  // namespace

Status PageStore::WriteDurably(const std::string& path, const std::string& text) {
  return WriteFileAtomically(path, text, {.mode = kOwnersAndGroup, .durable = true});
}

Status PageStore::Refresh(Time now) {
  if (ever_ && now - refreshed_ < kFresh) return {};
  ever_ = true;
  refreshed_ = now;
  std::error_code error;
  std::set<std::string> seen;
  Status all;
  ForEachEntry(
      folder_,
      [&](const fs::directory_entry& entry) {
        const std::string name = entry.path().filename();
        if (!IsWord(name)) return;
        if (Status read = ReadNamespace(name, &seen); !read.ok()) all = std::move(read);
      },
      &error);
  if (error) return Error::Unavailable(folder_ + " cannot be read: " + error.message());
  std::erase_if(pages_, [&](const auto& each) { return !seen.contains(each.first); });
  std::erase_if(foreign_, [&](const auto& each) { return !seen.contains(each); });
  return all;
}

Status PageStore::ReadNamespace(const std::string& name_space, std::set<std::string>* seen) {
  Status all;
  std::error_code error;
  ForEachEntry(
      folder_ + "/" + name_space,
      [&](const fs::directory_entry& entry) {
        const std::string name = entry.path().filename();
        if (!IsWord(name) || !name.ends_with(kEnding)) return;
        const std::string file = name_space + "/" + name;
        seen->insert(file);
        if (pages_.contains(file) || foreign_.contains(file)) return;
        Result<Page> page = ReadPage(name_space, folder_ + "/" + file);
        if (page.ok() && FileOf(page->job, page->uid) == file) {
          pages_[file] = *std::move(page);
        } else if (page.ok() || page.error().kind == ErrorKind::kInvalid) {
          foreign_.insert(file);
        } else if (page.error().kind != ErrorKind::kNotFound) {  // removed meanwhile
          all = page.error();
        }
      },
      &error);
  if (!error || error == std::errc::not_a_directory ||
      error == std::errc::no_such_file_or_directory) {
    return all;
  }
  for (const auto& [file, page] : pages_) {
    if (page.job.name_space == name_space) seen->insert(file);
  }
  return Error::Unavailable(folder_ + "/" + name_space + " cannot be read: " + error.message());
}

const PageStore::Page* PageStore::Find(const kube::ObjectName& job) const {
  const Page* newest = nullptr;
  const std::string begin = job.name_space + "/" + job.name + "-";
  for (auto each = pages_.lower_bound(begin); each != pages_.end(); ++each) {
    if (!each->first.starts_with(begin)) break;
    const Page& page = each->second;
    if (page.job == job && (newest == nullptr || page.at > newest->at)) newest = &page;
  }
  return newest;
}

const PageStore::Page* PageStore::Find(const kube::ObjectName& job, const std::string& uid) const {
  const auto found = pages_.find(FileOf(job, uid));
  return found == pages_.end() ? nullptr : &found->second;
}

std::vector<const PageStore::Page*> PageStore::List(const std::string& name_space) const {
  std::map<kube::ObjectName, const Page*> newest;
  for (const auto& [file, page] : pages_) {
    if (!name_space.empty() && page.job.name_space != name_space) continue;
    const Page*& known = newest[page.job];
    if (known == nullptr || page.at > known->at) known = &page;
  }
  std::vector<const Page*> pages;
  for (const auto& [job, page] : newest) pages.push_back(page);
  return pages;
}

Result<std::string> PageStore::ReadView(const Page& page) {
  const Result<std::string> text = ReadFile(page.path, kMostOfFile);
  if (!text.ok()) return text.error();
  const OrderedJson file = ParseOrderedJson(*text);
  if (!file.is_object() || !file.contains("view") || !file["view"].is_object()) {
    return Error::Invalid(page.path + " is not a kept page");
  }
  return DumpJson(file["view"]);
}

bool PageStore::Wants(const std::string& name_space, WallTime at, const Limits& limits,
                      WallTime now) const {
  size_t newer = 0;
  const std::string begin = name_space + "/";
  for (auto each = pages_.lower_bound(begin); each != pages_.end(); ++each) {
    if (!each->first.starts_with(begin)) break;
    if (each->second.at > at) ++newer;
  }
  return newer < limits.jobs && now - at < limits.age;
}

Status PageStore::Keep(const kube::ObjectName& job, const std::string& uid, WallTime at,
                       const std::string& row, const std::string& view) {
  if (!IsWord(job.name_space) || !IsWord(job.name) || !IsWord(uid)) {
    return Error::Invalid(job.name_space + "/" + job.name + " of UID " + uid +
                          " cannot be the name of a file");
  }
  const std::string file = FileOf(job, uid);
  const std::string path = folder_ + "/" + file;
  const Bounded bounded = Bound(view, kMostOfFile - kMostOfHead);
  const Result<Page> there = ReadPage(job.name_space, path);
  if (there.ok() && there->uid == uid && there->lines >= bounded.lines) {
    pages_[file] = *there;
    return {};
  }
  const bool none = !there.ok() && (there.error().kind == ErrorKind::kNotFound ||
                                    there.error().kind == ErrorKind::kInvalid);
  if (!there.ok() && !none) return there.error();
  const OrderedJson head = {{"name", job.name},
                            {"uid", uid},
                            {"at", FormatWallTime(at)},
                            {"lines", bounded.lines},
                            {"row", ParseOrderedJson(row)}};
  const std::string text = R"({"kept":)" + DumpJson(head) + ",\n\"jobUID\":\"" + uid +
                           R"(","view":)" + bounded.text + "}\n";
  if (text.size() > kMostOfFile) return Error::TooLarge("its page has too many bytes");
  const auto write = [&]() -> Status {
    std::error_code error;
    fs::create_directories(folder_ + "/" + job.name_space, error);
    if (!error) return write_(path, text);
    return Error::Unavailable(folder_ + "/" + job.name_space + ": " + error.message());
  };
  Status written = write();
  for (int i = 0; i < kMostGone && !written.ok(); ++i) {
    if (!IsOfNoSpace(written.error()) || !MakeRoom(at)) break;
    written = write();
  }
  if (!written.ok()) return written;
  Result<Page> page = ReadPage(job.name_space, path);
  if (!page.ok()) return page.error();
  foreign_.erase(file);
  pages_[file] = *std::move(page);
  return {};
}

size_t PageStore::Prune(const Limits& limits, WallTime now) {
  struct Taken {
    size_t jobs = 0;
    uint64_t bytes = 0;
  };
  std::map<std::string, Taken> taken;  // by namespace
  std::vector<std::pair<WallTime, std::string>> newest_first;
  for (const auto& [file, page] : pages_) newest_first.emplace_back(page.at, file);
  std::ranges::sort(newest_first, std::greater());
  size_t kept = 0;
  size_t gone = 0;
  for (const auto& [at, file] : newest_first) {
    const Page& page = pages_.at(file);
    Taken& of_namespace = taken[page.job.name_space];
    ++of_namespace.jobs;
    of_namespace.bytes += page.bytes;
    const bool stays = of_namespace.jobs <= limits.jobs && of_namespace.bytes <= limits.bytes &&
                       now - at < limits.age && kept < limits.in_all;
    if (stays || !Remove(file)) {
      ++kept;
    } else {
      ++gone;
    }
  }
  return gone;
}

bool PageStore::MakeRoom(WallTime at) {
  std::map<std::string, uint64_t> bytes;
  for (const auto& [file, page] : pages_) bytes[page.job.name_space] += page.bytes;
  if (bytes.empty()) return false;
  const std::string& largest =
      std::ranges::max_element(bytes, {}, [](const auto& each) { return each.second; })->first;
  Pages::const_iterator oldest = pages_.end();
  for (auto each = pages_.begin(); each != pages_.end(); ++each) {
    if (each->second.job.name_space != largest) continue;
    if (oldest == pages_.end() || each->second.at < oldest->second.at) oldest = each;
  }
  return oldest->second.at < at && Remove(std::string(oldest->first));
}

bool PageStore::Remove(const std::string& file) {
  std::error_code error;
  fs::remove(folder_ + "/" + file, error);
  if (error) return false;
  pages_.erase(file);
  return true;
}

void PageStore::Sweep() const {
  const auto now = fs::file_time_type::clock::now();
  ForEachEntry(folder_, [&](const fs::directory_entry& name_space) {
    std::error_code error;
    if (!IsWord(name_space.path().filename().string()) || !name_space.is_directory(error)) return;
    ForEachEntry(name_space.path(), [&](const fs::directory_entry& entry) {
      if (!entry.path().filename().string().starts_with(kTemporary)) return;
      const auto written = entry.last_write_time(error);
      if (!error && now - written > kOldTemporary) fs::remove(entry.path(), error);
    });
    fs::remove(name_space.path(), error);  // only if it is empty
  });
}

bool PageStore::IsFull() const {
  struct statvfs space{};
  if (statvfs(folder_.c_str(), &space) != 0) return false;
  return uint64_t{space.f_bavail} * space.f_frsize < kLittleSpace;
}

}  // namespace lockstep::cli
