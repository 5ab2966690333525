#include "cli/cluster/page/page_store.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <optional>
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
constexpr mode_t kOwnersAndGroup = 0640;  // a log may hold secrets

// Names of Kubernetes are such words. Others never become paths.
bool IsWord(std::string_view word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !word.empty() && word.front() != '.' && std::ranges::all_of(word, plain);
}

// The first line, without its last comma.
Result<std::string> ReadHead(const std::string& path) {
  const Result<UniqueFd> file = OpenRegularFile(path);
  if (!file.ok()) return file.error();
  std::array<char, PageStore::kMostOfHead> head{};
  size_t size = 0;
  while (size < head.size()) {
    const ssize_t got = read(file->get(), head.data() + size, head.size() - size);
    if (got <= 0) break;
    size += static_cast<size_t>(got);
  }
  const std::string_view text(head.data(), size);
  const size_t end = text.find(",\n");
  if (end == std::string_view::npos) return Error::Invalid(path + " is not a kept page");
  return std::string(text.substr(0, end)) + "}";
}

std::optional<PageStore::Page> ReadPage(const std::string& name_space, const std::string& path) {
  const Result<std::string> head = ReadHead(path);
  if (!head.ok()) return {};
  const OrderedJson text = ParseOrderedJson(*head);
  if (!text.is_object() || !text.contains("kept") || !text["kept"].is_object()) return {};
  const OrderedJson& kept = text["kept"];
  for (const char* name : {"name", "uid", "at"}) {
    if (!kept.contains(name) || !kept[name].is_string()) return {};
  }
  const Result<WallTime> at = ParseWallTime(std::string(kept["at"]));
  if (!at.ok() || !kept.contains("row") || !kept["row"].is_object()) return {};
  OrderedJson row = kept["row"];
  row["kept"] = true;
  return PageStore::Page{.job = {name_space, kept["name"]},
                         .uid = kept["uid"],
                         .at = *at,
                         .row = DumpJson(row),
                         .path = path};
}

std::string FileOf(const kube::ObjectName& job, const std::string& uid) {
  return job.name_space + "/" + job.name + "-" + uid + std::string(kEnding);
}

}  // namespace

Status PageStore::Refresh(Time now) {
  if (ever_ && now - refreshed_ < kFresh) return {};
  ever_ = true;
  refreshed_ = now;
  std::error_code error;
  std::set<std::string> seen;
  ForEachEntry(
      folder_,
      [&](const fs::directory_entry& entry) {
        const std::string name = entry.path().filename();
        if (IsWord(name)) ReadNamespace(name, &seen);
      },
      &error);
  if (error) return Error::Unavailable(folder_ + " cannot be read: " + error.message());
  std::erase_if(pages_, [&](const auto& each) { return !seen.contains(each.first); });
  std::erase_if(foreign_, [&](const auto& each) { return !seen.contains(each); });
  return {};
}

void PageStore::ReadNamespace(const std::string& name_space, std::set<std::string>* seen) {
  ForEachEntry(folder_ + "/" + name_space, [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename();
    if (!IsWord(name) || !name.ends_with(kEnding) || seen->size() >= kMostFiles) return;
    const std::string file = name_space + "/" + name;
    seen->insert(file);
    if (pages_.contains(file) || foreign_.contains(file)) return;
    std::optional<Page> page = ReadPage(name_space, folder_ + "/" + file);
    if (page && FileOf(page->job, page->uid) == file) {
      pages_[file] = *std::move(page);
    } else {
      foreign_.insert(file);
    }
  });
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
  const OrderedJson head = {
      {"name", job.name}, {"uid", uid}, {"at", FormatWallTime(at)}, {"row", ParseOrderedJson(row)}};
  const std::string file = FileOf(job, uid);
  std::error_code error;
  fs::create_directories(folder_ + "/" + job.name_space, error);
  if (error) {
    return Error::Unavailable(folder_ + "/" + job.name_space + ": " + error.message());
  }
  Status written = WriteFileAtomically(
      folder_ + "/" + file,
      R"({"kept":)" + DumpJson(head) + ",\n\"jobUID\":\"" + uid + R"(","view":)" + view + "}\n",
      {.mode = kOwnersAndGroup, .durable = true});
  if (!written.ok()) return written;
  std::optional<Page> page = ReadPage(job.name_space, folder_ + "/" + file);
  if (!page) return Error::Unavailable(folder_ + "/" + file + " cannot be read again");
  pages_[file] = *std::move(page);
  return {};
}

size_t PageStore::Prune(const Limits& limits, WallTime now) {
  std::map<std::string, std::vector<std::pair<WallTime, std::string>>> by_namespace;
  for (const auto& [file, page] : pages_) {
    by_namespace[page.job.name_space].emplace_back(page.at, file);
  }
  size_t gone = 0;
  for (auto& [name_space, files] : by_namespace) {
    std::ranges::sort(files, std::greater());  // the newest first
    for (size_t i = 0; i < files.size(); ++i) {
      if (i < limits.jobs && now - files[i].first < limits.age) continue;
      std::error_code error;
      fs::remove(folder_ + "/" + files[i].second, error);
      if (error) continue;
      pages_.erase(files[i].second);
      ++gone;
    }
  }
  return gone;
}

bool PageStore::IsFull() const {
  struct statvfs space{};
  if (statvfs(folder_.c_str(), &space) != 0) return false;
  return uint64_t{space.f_bavail} * space.f_frsize < kLittleSpace;
}

}  // namespace lockstep::cli
