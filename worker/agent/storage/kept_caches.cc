#include "worker/agent/storage/kept_caches.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/crypto/sha256.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/time.h"
#include "worker/agent/parked/python_command.h"
#include "worker/agent/storage/compile_caches.h"
#include "worker/topology/small_file.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr Duration kKeepWithin = seconds(20);
constexpr Duration kFetchWithin = seconds(60);
constexpr size_t kMostKinds = 4;  // of machines, images and interpreters on one claim
constexpr size_t kKeyDigits = 16;

// Lines of /proc/cpuinfo that say what its instructions are: x86's, and ARM's.
constexpr std::array<std::string_view, 9> kCpuLines = {
    "vendor_id", "cpu family", "model",       "model name",     "flags",
    "Features",  "CPU part",   "CPU variant", "CPU implementer"};

std::string FirstCpu(const std::string& root) {
  std::istringstream text(topology::ReadSmallFile(root + "/proc/cpuinfo").value_or(""));
  std::string kind;
  for (std::string line; std::getline(text, line) && !line.empty();) {
    const std::string name = line.substr(0, line.find_last_not_of("\t ", line.find(':') - 1) + 1);
    if (std::ranges::find(kCpuLines, name) != kCpuLines.end()) kind += line + "\n";
  }
  return kind;
}

std::string Seconds(fs::file_time_type time) {
  return std::to_string(
      std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count());
}

// Distributions that are installed below a prefix, each with when: an image's are of one moment.
std::set<std::string> Installed(const fs::path& prefix) {
  std::set<std::string> names;
  const auto add = [&](const fs::directory_entry& entry) {
    const std::string kind = entry.path().extension();
    if (kind != ".dist-info" && kind != ".egg-info") return;
    std::error_code none;
    const fs::file_time_type time = entry.last_write_time(none);
    names.insert(entry.path().string() + " " + (none ? "" : Seconds(time)));
  };
  ForEachEntry(prefix / "lib", [&](const fs::directory_entry& python) {
    if (!python.path().filename().string().starts_with("python3")) return;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      ForEachEntry(python.path() / packages, add);
    }
  });
  return names;
}

bool HasFiles(const fs::path& folder) {
  bool found = false;
  ForEachEntryBelow(folder, [&found](const fs::directory_entry& entry) {
    std::error_code unknown;
    found = entry.is_regular_file(unknown);
    return !found;
  });
  return found;
}

std::string KeyOf(const std::string& identity) {
  Sha256 hash;
  hash.Add(std::as_bytes(std::span(identity)));
  return hash.Hex().substr(0, kKeyDigits);
}

// The oldest go, which no machine of this kind has added to for longest.
void ForgetOldKinds(const fs::path& all) {
  std::vector<std::pair<fs::file_time_type, fs::path>> kinds;
  ForEachEntry(all, [&kinds](const fs::directory_entry& kind) {
    std::error_code unknown;
    const fs::file_time_type time = fs::last_write_time(kind.path() / "identity", unknown);
    if (!unknown) kinds.emplace_back(time, kind.path());
  });
  std::ranges::sort(kinds, std::greater());
  std::error_code error;
  for (size_t i = kMostKinds; i < kinds.size(); ++i) fs::remove_all(kinds[i].second, error);
}

std::string Told(const CachesCopied& copied) {
  return std::to_string(copied.files) + " files, " + std::to_string(copied.bytes >> 20) + " MiB" +
         (copied.whole ? "" : "; a limit of time or size, or an error, ended it");
}

}  // namespace

Result<std::string> CacheIdentity(const SpawnRequest& rank, const std::vector<topology::Gpu>& gpus,
                                  const std::string& root) {
  const Result<PythonCommand> python = FindPython(rank);
  if (!python.ok()) return python.error();
  std::error_code error;
  const fs::path real = fs::canonical(python->path, error);
  const fs::file_time_type made = fs::last_write_time(real, error);
  if (error) return Error::Unavailable(python->path + ": " + error.message());
  std::string identity = real.string() + " " + Seconds(made) + "\n";
  std::set<std::string> installed;
  for (const fs::path& file : {fs::path(python->path), real}) {
    const fs::path prefix = file.parent_path().parent_path();
    installed.merge(Installed(prefix));
    installed.merge(Installed(prefix / "local"));
  }
  for (const std::string& name : installed) identity += name + "\n";
  identity += FirstCpu(root);
  std::set<std::string> kinds;
  for (const topology::Gpu& gpu : gpus) {
    const std::string device = root + "/sys/bus/pci/devices/" + gpu.pci_address + "/";
    kinds.insert("GPU " + topology::ReadSmallFile(device + "vendor").value_or(gpu.pci_address) +
                 " " + topology::ReadSmallFile(device + "device").value_or("") + "\n");
  }
  for (const std::string& kind : kinds) identity += kind;
  for (const char* driver : {"/proc/driver/nvidia/version", "/sys/module/amdgpu/version"}) {
    if (!gpus.empty()) identity += topology::ReadSmallFile(root + driver).value_or("");
  }
  return identity;
}

// What the worker's jobs use, one after the other.
struct KeptCaches::Shared {
  std::string folder;
  fs::path all;  // of the claim
  std::function<Result<std::string>()> find_identity;
  std::optional<Result<std::string>> identity;
  std::shared_ptr<std::atomic<bool>> stop = std::make_shared<std::atomic<bool>>(false);

  const Result<std::string>& Identity() {
    if (!identity) identity = find_identity();
    return *identity;
  }
  std::string Fetch() {
    if (!Identity().ok()) return "";
    const fs::path kept = all / KeyOf(*Identity());
    const CachesCopied copied = FetchCaches(kept, folder, {.time = kFetchWithin, .stop = stop});
    if (copied.files == 0 && copied.whole) return "";
    return "compile caches fetched from " + kept.string() + ": " + Told(copied);
  }
  std::string Keep(fs::file_time_type death) {
    if (!Identity().ok()) {
      return HasFiles(folder) ? "compile caches are not kept: " + Identity().error().message : "";
    }
    const fs::path kept = all / KeyOf(*Identity());
    const CachesCopied copied =
        KeepCaches(folder, kept, death, {.time = kKeepWithin, .stop = stop});
    // Written each time: it tells how long ago this kind was last of use.
    std::error_code error;
    if (fs::exists(kept, error)) {
      const Status written = WriteFileAtomically(kept / "identity", *Identity());
      if (!written.ok()) return "compile caches: " + written.error().message;
    }
    if (copied.files == 0)
      return copied.whole ? "" : "compile caches are not kept: " + Told(copied);
    ForgetOldKinds(all);
    return "compile caches kept in " + kept.string() + ": " + Told(copied);
  }
};

KeptCaches::KeptCaches(EventLoop* loop, std::string folder, std::string claim,
                       std::function<Result<std::string>()> identity, std::function<void()> done,
                       LogFn log)
    : loop_(loop),
      shared_(std::make_shared<Shared>()),
      done_(std::move(done)),
      log_(std::move(log)) {
  shared_->folder = std::move(folder);
  shared_->all = fs::path(std::move(claim)) / "compiled";
  shared_->find_identity = std::move(identity);
}

KeptCaches::~KeptCaches() { *shared_->stop = true; }

void KeptCaches::Fetch() {
  Result<std::unique_ptr<FileWorker>> worker = FileWorker::Create(loop_);
  if (!worker.ok()) return log_("compile caches are not kept: " + worker.error().message);
  worker_ = std::move(*worker);
  worker_->Run([shared = shared_] { return shared->Fetch(); },
               [this](const std::string& said) {
                 if (!said.empty()) log_(said);
               });
}

void KeptCaches::Keep() {
  if (!worker_ || keeping_) return;
  keeping_ = true;
  worker_->Run(
      [shared = shared_, death = fs::file_time_type::clock::now()] { return shared->Keep(death); },
      [this](const std::string& said) {
        keeping_ = false;
        if (!said.empty()) log_(said);
        done_();
      });
}

}  // namespace lockstep::agent
