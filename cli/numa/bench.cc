#include "cli/numa/bench.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <sstream>

#include "base/text/ascii.h"
#include "worker/topology/cgroup.h"
#include "worker/topology/plan/core_split.h"
#include "worker/topology/small_file.h"

namespace lockstep::numa {
namespace {

using topology::Machine;
using topology::ReadSmallFile;

constexpr std::array<const char*, 9> kKindNames = {"baseline",    "local",   "remote",
                                                   "interleaved", "threads", "processes",
                                                   "latency",     "sizes",   "messages"};
constexpr size_t kLeastWorkingSet = 16 << 10;
constexpr size_t kLeastArray = 1 << 20;
constexpr size_t kUnknownCache = 64 << 20;  // taken for the caches where the machine doesn't say

// How many workers the CPU quota lets run all the time; at least one.
size_t MostWorkers(const Machine& machine) {
  if (machine.cpu_quota <= 0) return SIZE_MAX;
  return static_cast<size_t>(std::max(machine.cpu_quota, 1.0));
}

// The first CPU of each core of `node` that may be used, of all nodes for -1. Where the quota has
// time for fewer, those are spread evenly: neighbours share caches and memory channels.
std::vector<int> CpusOfNode(const Machine& machine, int node) {
  std::vector<int> cpus;
  for (const topology::Core& core : topology::AllowedCores(machine)) {
    if (node < 0 || core.numa_node == node) cpus.push_back(core.cpus.front());
  }
  const size_t all = cpus.size();
  const size_t most = std::min(all, MostWorkers(machine));
  for (size_t i = 0; i < most; ++i) cpus[i] = cpus[i * all / most];
  cpus.resize(most);
  return cpus;
}

// 1, 2, 4, ... and `most` itself.
std::vector<size_t> Doublings(size_t most) {
  std::vector<size_t> counts;
  for (size_t count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

// "480M", "32768K" of sysfs; 0 for anything else.
size_t ReadSize(std::string text) {
  if (text.empty()) return 0;
  const size_t unit = text.back() == 'M' ? 1 << 20 : text.back() == 'K' ? 1 << 10 : 1;
  if (unit > 1) text.pop_back();
  return ParseNumber<uint32_t>(text).value_or(0) * unit;
}

// All last-level caches, each once.
size_t CacheBytes(const Machine& machine, const std::string& root) {
  std::set<std::string> seen;
  size_t bytes = 0;
  for (const int cpu : machine.allowed_cpus) {
    const std::string caches =
        root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/";
    int last = -1;
    int last_level = 0;
    for (int index = 0; index < 8; ++index) {
      const std::string level =
          ReadSmallFile(caches + "index" + std::to_string(index) + "/level").value_or("");
      const int number = ParseNumber<int>(level).value_or(0);
      if (number >= last_level && number > 0) last = index;
      last_level = std::max(last_level, number);
    }
    if (last < 0) continue;
    const std::string cache = caches + "index" + std::to_string(last) + "/";
    if (!seen.insert(ReadSmallFile(cache + "shared_cpu_list").value_or("")).second) continue;
    bytes += ReadSize(ReadSmallFile(cache + "size").value_or(""));
  }
  return bytes;
}

// "MemFree:  12 kB" of /proc/meminfo, or of a node's; nullopt without one.
std::optional<size_t> KilobytesOf(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    size_t number = 0;
    if (line.starts_with(name) && std::istringstream(line.substr(name.size())) >> number) {
      return number * 1024;
    }
  }
  return std::nullopt;
}

// Memory that may be had: the least of what the kernel, the cgroups and the compared nodes have.
std::optional<size_t> FreeBytes(const Machine& machine, const std::string& root) {
  std::optional<size_t> least;
  const auto at_most = [&least](std::optional<size_t> bytes) {
    if (bytes) least = std::min(least.value_or(*bytes), *bytes);
  };
  at_most(KilobytesOf(ReadSmallFile(root + "/proc/meminfo").value_or(""), "MemAvailable:"));
  for (const topology::MemoryLimit& limit : topology::ReadMemoryLimits(root)) {
    at_most(limit.bytes - std::min(limit.bytes, limit.used));
  }
  for (const int node : ComparedNodes(machine)) {
    const std::string prefix = "Node " + std::to_string(node) + " ";
    const std::string text =
        ReadSmallFile(root + "/sys/devices/system/node/node" + std::to_string(node) + "/meminfo")
            .value_or("");
    const std::optional<size_t> free = KilobytesOf(text, prefix + "MemFree:");
    if (free) at_most(*free + KilobytesOf(text, prefix + "Inactive(file):").value_or(0));
  }
  return least;
}

std::map<std::string, int64_t> ReadNumastat(int node) {
  std::map<std::string, int64_t> counts;
  std::istringstream lines(
      ReadSmallFile("/sys/devices/system/node/node" + std::to_string(node) + "/numastat")
          .value_or(""));
  std::string name;
  for (int64_t pages = 0; lines >> name >> pages;) counts[name] = pages;
  return counts;
}

bool IsLatency(const Setting& setting) { return setting.work.task == Task::kChase; }

// The setting that `setting` is compared with; nullopt for itself and for those without.
std::optional<size_t> LocalOf(const std::vector<Setting>& settings, const Setting& setting) {
  const bool compared =
      setting.kind == Kind::kRemote || setting.kind == Kind::kInterleaved ||
      (setting.kind == Kind::kLatency && setting.memory_node() != setting.cpu_node);
  if (!compared) return std::nullopt;
  for (size_t i = 0; i < settings.size(); ++i) {
    if (settings[i].kind == (IsLatency(setting) ? Kind::kLatency : Kind::kLocal) &&
        settings[i].cpu_node == setting.cpu_node && settings[i].memory_node() == setting.cpu_node) {
      return i;
    }
  }
  return std::nullopt;
}

// The figures of one setting, a run an entry.
struct Series {
  std::array<std::vector<double>, kKernels.size()> bytes_per_second;
  std::vector<double> nanoseconds;
  std::vector<double> message_bytes_per_second;

  const std::vector<double>& compared(const Setting& setting) const {
    return IsLatency(setting) ? nanoseconds : bytes_per_second.back();
  }
};

void Add(const TeamResult& team, Row* row, Series* series) {
  if (row->setting.work.task != Task::kStream) series->nanoseconds.push_back(team.nanoseconds);
  if (row->setting.work.task == Task::kMessages) {
    series->message_bytes_per_second.push_back(kMessageBytes / team.message_seconds);
  } else if (row->setting.work.task == Task::kStream) {
    const size_t elements = row->setting.work.bytes / sizeof(double);
    for (size_t k = 0; k < kKernels.size(); ++k) {
      series->bytes_per_second[k].push_back(static_cast<double>(elements) * kKernels[k].counted /
                                            team.seconds[k]);
    }
  }
  if (team.pages > 0) {
    const double placed = static_cast<double>(team.pages_placed) / static_cast<double>(team.pages);
    row->placed = row->placed < 0 ? placed : std::min(row->placed, placed);
  }
  row->mbind_errno = team.mbind_errno;
  row->counts = team.counts;
}

}  // namespace

const char* ToString(Kind kind) { return kKindNames.at(static_cast<size_t>(kind)); }

std::optional<Kind> ParseKind(std::string_view name) {
  const auto* found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found == kKindNames.end()) return std::nullopt;
  return static_cast<Kind>(found - kKindNames.begin());
}

std::vector<int> ComparedNodes(const Machine& machine) {
  std::vector<int> nodes;
  for (const topology::NumaNode& node : machine.numa_nodes) {
    const bool memory = machine.allowed_mems.empty() || Contains(machine.allowed_mems, node.id);
    if (memory && !CpusOfNode(machine, node.id).empty()) nodes.push_back(node.id);
  }
  return nodes;
}

std::vector<Setting> Settings(const Machine& machine) {
  std::vector<MemoryNode> all;
  for (const int node : ComparedNodes(machine)) {
    all.push_back({node, CpusOfNode(machine, node).front()});
  }
  std::vector<Setting> settings;
  const auto add = [&](Kind kind, int cpu_node, std::vector<int> cpus,
                       std::vector<MemoryNode> memory) {
    settings.push_back({.kind = kind,
                        .cpu_node = cpu_node,
                        .work = {.cpus = std::move(cpus),
                                 .memory = std::move(memory),
                                 .processes = kind == Kind::kProcesses || kind == Kind::kMessages,
                                 .task = kind == Kind::kLatency    ? Task::kChase
                                         : kind == Kind::kMessages ? Task::kMessages
                                                                   : Task::kStream}});
  };
  const std::vector<int> everywhere = CpusOfNode(machine, -1);
  add(Kind::kBaseline, -1, std::vector<int>(std::max<size_t>(everywhere.size(), 1), -1), {});
  for (const MemoryNode& cpus : all) {
    for (const MemoryNode& memory : all) {
      add(cpus.id == memory.id ? Kind::kLocal : Kind::kRemote, cpus.id,
          CpusOfNode(machine, cpus.id), {memory});
    }
    if (all.size() > 1) add(Kind::kInterleaved, cpus.id, CpusOfNode(machine, cpus.id), all);
  }
  if (all.size() > 1) add(Kind::kInterleaved, -1, everywhere, all);
  if (all.empty()) return settings;
  for (const Kind kind : {Kind::kThreads, Kind::kProcesses}) {
    const std::vector<int> cpus = CpusOfNode(machine, all[0].id);
    for (const size_t count : Doublings(cpus.size())) {
      add(kind, all[0].id, {cpus.begin(), cpus.begin() + static_cast<ptrdiff_t>(count)}, {all[0]});
    }
  }
  for (const MemoryNode& cpus : all) {
    for (const MemoryNode& memory : all) add(Kind::kLatency, cpus.id, {cpus.cpu}, {memory});
  }
  if (MostWorkers(machine) < 2) return settings;  // both ends of a message run at the same time
  for (size_t from = 0; from < all.size(); ++from) {
    for (size_t to = from; to < all.size(); ++to) {
      const std::vector<int> cpus = CpusOfNode(machine, all[from].id);
      if (from == to && cpus.size() < 2) continue;
      const int other = from == to ? cpus[1] : all[to].cpu;
      add(Kind::kMessages, all[from].id, {cpus[0], other}, {all[to]});
    }
  }
  return settings;
}

std::vector<Setting> SizeSettings(const Machine& machine, size_t most) {
  std::vector<Setting> settings;
  const std::vector<int> nodes = ComparedNodes(machine);
  if (nodes.empty()) return settings;
  const int cpu = CpusOfNode(machine, nodes[0]).front();
  const auto add = [&](size_t bytes) {
    Setting setting{.kind = Kind::kSizes,
                    .cpu_node = nodes[0],
                    .work = {.cpus = {cpu}, .memory = {{nodes[0], cpu}}, .bytes = bytes / 3}};
    settings.push_back(setting);
    setting.work.task = Task::kChase;
    setting.work.bytes = std::bit_floor(bytes);
    settings.push_back(setting);
  };
  size_t bytes = kLeastWorkingSet;
  for (; bytes < most; bytes *= 4) add(bytes);
  add(most);
  return settings;
}

ArraySize ChooseArraySize(const Machine& machine, size_t wanted, const std::string& root) {
  ArraySize size;
  size.cache_bytes = CacheBytes(machine, root);
  size.free_bytes = FreeBytes(machine, root);
  const size_t rule = 4 * (size.cache_bytes > 0 ? size.cache_bytes : kUnknownCache);
  size.bytes = wanted > 0 ? wanted : rule;
  if (wanted == 0 && size.free_bytes) size.bytes = std::min(size.bytes, *size.free_bytes / 6);
  size.bytes = std::max(size.bytes, kLeastArray);
  size.follows_rule = size.cache_bytes > 0 && size.bytes >= rule;
  return size;
}

Result<Report> RunBench(const Machine& machine, const Options& options,
                        const std::atomic<bool>& stop,
                        const std::function<void(int done, int all)>& progress) {
  Report report;
  report.options = options;
  report.size = ChooseArraySize(machine, options.array_bytes, "/");
  report.nodes = ComparedNodes(machine);
  const size_t cores = std::max<size_t>(topology::AllowedCores(machine).size(), 1);
  if (machine.cpu_quota < static_cast<double>(cores)) report.cpu_quota = machine.cpu_quota;
  std::vector<Setting> settings = Settings(machine);
  for (Setting& setting : settings) {
    setting.work.bytes = IsLatency(setting) ? std::bit_floor(report.size.bytes) : report.size.bytes;
  }
  const std::vector<Setting> sizes = SizeSettings(machine, report.size.bytes);
  settings.insert(settings.end(), sizes.begin(), sizes.end());
  std::erase_if(settings, [&only = options.only](const Setting& setting) {
    return !only.empty() && std::find(only.begin(), only.end(), setting.kind) == only.end();
  });
  for (const Setting& setting : settings) report.rows.emplace_back().setting = setting;
  for (const int node : report.nodes) report.numastat[node] = ReadNumastat(node);

  std::vector<Series> series(settings.size());
  std::vector<size_t> order(settings.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(options.seed);
  int done = 0;
  for (int round = 0; round < options.repetitions; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      progress(done++, options.repetitions * static_cast<int>(settings.size()));
      if (!report.rows[i].failed.empty()) continue;
      Result<TeamResult> team = RunTeam(settings[i].work, stop);
      if (stop) return Error::Unavailable("interrupted");
      if (team.ok()) {
        Add(*team, &report.rows[i], &series[i]);
        report.huge_pages = team->huge_pages;
      } else {
        report.rows[i].failed = team.error().message;
        series[i] = {};
      }
    }
  }

  for (size_t i = 0; i < settings.size(); ++i) {
    Row& row = report.rows[i];
    for (size_t k = 0; k < kKernels.size(); ++k) {
      row.bytes_per_second[k] = Summarize(series[i].bytes_per_second[k], options.seed);
    }
    row.nanoseconds = Summarize(series[i].nanoseconds, options.seed);
    row.message_bytes_per_second = Summarize(series[i].message_bytes_per_second, options.seed);
    const std::optional<size_t> local = LocalOf(settings, settings[i]);
    if (!local || !row.failed.empty() || !report.rows[*local].failed.empty()) continue;
    std::vector<double> ratios = series[i].compared(settings[i]);
    const std::vector<double>& of = series[*local].compared(settings[i]);
    for (size_t run = 0; run < ratios.size(); ++run) ratios[run] /= of[run];
    row.of_local = Summarize(ratios, options.seed);
  }
  for (const int node : report.nodes) {
    for (const auto& [name, pages] : ReadNumastat(node)) {
      report.numastat[node][name] = pages - report.numastat[node][name];
    }
  }
  return report;
}

}  // namespace lockstep::numa
