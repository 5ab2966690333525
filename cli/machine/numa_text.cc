#include "cli/machine/numa_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/text/columns.h"
#include "cli/machine/svg.h"

namespace lockstep::cli {
namespace {

using numa::Kind;
using numa::kKernels;
using numa::Report;
using numa::Row;
using numa::Summary;

constexpr size_t kTriad = 3;
constexpr double kMega = 1e6;

std::string Fixed(double value, int digits) {
  std::array<char, 64> text{};
  snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string MegaBytes(double bytes) { return Fixed(bytes / kMega, 0); }

// "1.9 GiB", "512 MiB".
std::string Binary(size_t bytes) {
  const auto number = static_cast<double>(bytes);
  if (bytes >= size_t{1} << 30) return Fixed(number / (1 << 30), 1) + " GiB";
  if (bytes >= size_t{1} << 20) return Fixed(number / (1 << 20), 0) + " MiB";
  return Fixed(number / (1 << 10), 0) + " KiB";
}

std::string NodesOf(const Row& row) {
  std::string nodes;
  for (const numa::MemoryNode& node : row.setting.work.memory) {
    nodes += (nodes.empty() ? "" : ",") + std::to_string(node.id);
  }
  return nodes;
}

bool IsLatency(const Row& row) { return row.setting.work.task == numa::Task::kChase; }

std::string Workers(const Row& row) {
  const size_t count = row.setting.work.cpus.size();
  return std::to_string(count) + (row.setting.work.processes ? " process" : " thread") +
         (count == 1                   ? ""
          : row.setting.work.processes ? "es"
                                       : "s");
}

std::string Interval(const Summary& summary, double unit, int digits) {
  return Fixed(summary.low / unit, digits) + "-" + Fixed(summary.high / unit, digits);
}

// "1.2 %" of the median.
std::string Deviation(const Summary& summary) {
  return summary.median > 0 ? Fixed(100 * summary.deviation / summary.median, 1) + " %" : "";
}

// The setting of one pair of nodes: local or remote, or the latency between them.
const Row* Pair(const Report& report, int cpu_node, int memory_node, bool latency) {
  for (const Row& row : report.rows) {
    const bool kind = latency
                          ? row.setting.kind == Kind::kLatency
                          : row.setting.kind == Kind::kLocal || row.setting.kind == Kind::kRemote;
    if (kind && row.failed.empty() && row.setting.cpu_node == cpu_node &&
        row.setting.memory_node() == memory_node) {
      return &row;
    }
  }
  return nullptr;
}

std::string Reason(int errno_value) {
  const char* name = strerrorname_np(errno_value);
  return name == nullptr ? std::to_string(errno_value) : name;
}

std::string Heading(const Report& report) {
  std::string text = std::to_string(report.nodes.size()) +
                     (report.nodes.size() == 1 ? " NUMA node" : " NUMA nodes");
  if (report.nodes.size() < 2) {
    text += ": there is nothing to compare. The baseline follows";
  }
  text += ".\nArrays of " + Binary(report.size.bytes);
  if (report.size.cache_bytes == 0) {
    text += " (the size of the caches is unknown, so STREAM's rule cannot be checked)";
  } else if (report.size.follows_rule) {
    text += ", four times the last-level caches (" + Binary(report.size.cache_bytes) +
            ") or more, as STREAM's rules ask";
  } else {
    text += ", LESS than four times the last-level caches (" + Binary(report.size.cache_bytes) +
            "): caches make these figures better than the memory is";
  }
  text += ".\n";
  if (report.cpu_quota > 0) {
    text += "The CPU quota (" + Fixed(report.cpu_quota, 1) + " CPUs) allows " +
            (report.cpu_quota < 1 ? "1 worker, and not all the time"
             : report.cpu_quota < 2
                 ? "1 worker"
                 : "at most " + Fixed(std::floor(report.cpu_quota), 0) + " workers") +
            ": memory may carry more.\n";
  }
  return text + (report.huge_pages ? "Huge pages are asked for. " : "") +
         std::to_string(report.options.repetitions) +
         " runs of each setting in random order;\n"
         "medians in MB/s (10^6) as STREAM counts, 16 or 24 bytes an element. A plain store reads "
         "the line first:\nmemory carried 3/2 of it in copy and scale, 4/3 in add and triad.\n\n";
}

void AddBandwidth(const Report& report, std::string* out) {
  std::vector<std::vector<std::string>> rows = {{"SETTING", "CPUS OF", "MEMORY OF", "WORKERS",
                                                 "COPY", "SCALE", "ADD", "TRIAD", "(95 %)", "SD",
                                                 "OF LOCAL", "PLACED"}};
  for (const Row& row : report.rows) {
    if (IsLatency(row) || row.setting.kind == Kind::kSizes || row.setting.kind == Kind::kMessages) {
      continue;
    }
    const int node = row.setting.cpu_node;
    std::vector<std::string> cells = {
        ToString(row.setting.kind), node < 0 ? "all" : std::to_string(node),
        NodesOf(row).empty() ? "first touch" : NodesOf(row), Workers(row)};
    if (!row.failed.empty()) {
      cells.push_back("not measured: " + row.failed);
    } else {
      for (const Summary& kernel : row.bytes_per_second) cells.push_back(MegaBytes(kernel.median));
      cells.push_back(Interval(row.bytes_per_second[kTriad], kMega, 0));
      cells.push_back(Deviation(row.bytes_per_second[kTriad]));
      cells.push_back(row.of_local ? Fixed(row.of_local->median, 2) : "");
      cells.push_back(row.placed < 0 ? "?" : Fixed(100 * row.placed, 0) + " %");
    }
    rows.push_back(std::move(cells));
  }
  if (rows.size() > 1) *out += AlignColumns(rows, "");
}

void AddLatency(const Report& report, std::string* out) {
  if (std::ranges::none_of(report.rows,
                           [](const Row& row) { return row.setting.kind == Kind::kLatency; })) {
    return;
  }
  *out += "\nLatency in ns of one pointer after the other (95 %), from the CPUs of a row's node:\n";
  std::vector<std::vector<std::string>> rows = {{"NODE"}};
  for (const int memory : report.nodes) rows[0].push_back("memory of " + std::to_string(memory));
  for (const int cpus : report.nodes) {
    std::vector<std::string> cells = {std::to_string(cpus)};
    for (const int memory : report.nodes) {
      const Row* row = Pair(report, cpus, memory, true);
      cells.push_back(row == nullptr ? "not measured"
                                     : Fixed(row->nanoseconds.median, 1) + " (" +
                                           Interval(row->nanoseconds, 1, 1) + ")");
    }
    rows.push_back(std::move(cells));
  }
  *out += AlignColumns(rows, "  ");
}

// A row for each working set: kernels and pointers stand beside each other.
void AddSizes(const Report& report, std::string* out) {
  std::vector<std::vector<std::string>> rows = {
      {"WORKING SET", "TRIAD", "(95 %)", "SD", "LATENCY", "(95 %)", "SD"}};
  for (size_t i = 0; i + 1 < report.rows.size(); ++i) {
    const Row& stream = report.rows[i];
    const Row& chase = report.rows[i + 1];
    if (stream.setting.kind != Kind::kSizes || IsLatency(stream)) continue;
    std::vector<std::string> cells = {Binary(chase.setting.work.bytes)};
    if (!stream.failed.empty() || !chase.failed.empty()) {
      cells.push_back("not measured: " + stream.failed + chase.failed);
    } else {
      const Summary& triad = stream.bytes_per_second[kTriad];
      cells.insert(cells.end(), {MegaBytes(triad.median), Interval(triad, kMega, 0),
                                 Deviation(triad), Fixed(chase.nanoseconds.median, 1),
                                 Interval(chase.nanoseconds, 1, 1), Deviation(chase.nanoseconds)});
    }
    rows.push_back(std::move(cells));
  }
  if (rows.size() == 1) return;
  *out += "\nOne thread of node " + std::to_string(report.nodes.front()) +
          " on more and more of its memory: triad in MB/s, one pointer in ns:\n" +
          AlignColumns(rows, "  ");
}

void AddMessages(const Report& report, std::string* out) {
  std::vector<std::vector<std::string>> rows = {
      {"FROM", "TO", "ONE WAY", "(95 %)", "SD", "MB/S", "(95 %)", "SD"}};
  for (const Row& row : report.rows) {
    if (row.setting.kind != Kind::kMessages) continue;
    std::vector<std::string> cells = {std::to_string(row.setting.cpu_node), NodesOf(row)};
    if (!row.failed.empty()) {
      cells.push_back("not measured: " + row.failed);
    } else {
      const Summary& rate = row.message_bytes_per_second;
      cells.insert(cells.end(), {Fixed(row.nanoseconds.median, 0), Interval(row.nanoseconds, 1, 0),
                                 Deviation(row.nanoseconds), MegaBytes(rate.median),
                                 Interval(rate, kMega, 0), Deviation(rate)});
    }
    rows.push_back(std::move(cells));
  }
  if (rows.size() == 1) return;
  *out +=
      "\nMessages between two processes by memory that they share, from the CPUs of a node to "
      "those of another:\n4 bytes in ns one way, " +
      Binary(numa::kMessageBytes) + " in MB/s\n" + AlignColumns(rows, "  ");
}

void AddEvidence(const Report& report, std::string* out) {
  *out += "\nCounters of each setting are in --json";
  for (size_t i = 0; i < numa::kCounterNames.size() && !report.rows.empty(); ++i) {
    const int error = report.rows[0].counts.errors[i];
    if (error != 0) {
      *out += std::string("; no ") + numa::kCounterNames[i] + " (" + Reason(error) + ")";
    }
  }
  *out += ".\n";
  const auto refused = std::find_if(report.rows.begin(), report.rows.end(),
                                    [](const Row& row) { return row.mbind_errno != 0; });
  if (refused != report.rows.end()) {
    *out += "mbind is refused here (" + Reason(refused->mbind_errno) +
            "): memory was placed by touching it from its node.\n";
  }
  for (const auto& [node, counts] : report.numastat) {
    *out += "Pages allocated on node " + std::to_string(node) + " meanwhile, by all processes:";
    for (const auto& [name, pages] : counts) *out += " " + name + " " + std::to_string(pages);
    *out += "\n";
  }
  *out += std::string("Copies between host and GPU: not measured; ") + numa::kNoGpuCopies + ".\n";
}

OrderedJson ToJson(const Summary& summary) {
  return {{"runs", summary.count},  {"median", summary.median}, {"low95", summary.low},
          {"high95", summary.high}, {"p5", summary.p5},         {"p95", summary.p95},
          {"least", summary.least}, {"most", summary.most},     {"deviation", summary.deviation}};
}

OrderedJson RowJson(const Row& row) {
  OrderedJson json = {{"setting", ToString(row.setting.kind)}};
  json["cpuNode"] = row.setting.cpu_node < 0 ? OrderedJson() : OrderedJson(row.setting.cpu_node);
  json["memoryNodes"] = OrderedJson::array();
  const bool messages = row.setting.kind == Kind::kMessages;
  for (const numa::MemoryNode& node : row.setting.work.memory) {
    if (!messages) json["memoryNodes"].push_back(node.id);
  }
  if (messages) json["toNode"] = row.setting.memory_node();
  json["workers"] = row.setting.work.cpus.size();
  json["processes"] = row.setting.work.processes;
  json["cpus"] = OrderedJson::array();
  for (const int cpu : row.setting.work.cpus) {
    if (cpu >= 0) json["cpus"].push_back(cpu);
  }
  json["bytes"] = row.setting.work.bytes;
  if (!row.failed.empty()) {
    json["failed"] = row.failed;
    return json;
  }
  if (row.setting.work.task != numa::Task::kStream) json["nanoseconds"] = ToJson(row.nanoseconds);
  if (messages) {
    json["messageBytes"] = numa::kMessageBytes;
    json["bytesPerSecond"]["messages"] = ToJson(row.message_bytes_per_second);
  } else if (!IsLatency(row)) {
    for (size_t i = 0; i < kKernels.size(); ++i) {
      json["bytesPerSecond"][kKernels[i].name] = ToJson(row.bytes_per_second[i]);
    }
  }
  if (row.of_local) json["ofLocal"] = ToJson(*row.of_local);
  json["placed"] = row.placed < 0 ? OrderedJson() : OrderedJson(row.placed);
  json["placedBy"] = row.setting.work.memory.empty() || row.mbind_errno != 0
                         ? std::string("first touch")
                         : std::string("mbind");
  if (row.mbind_errno != 0) json["mbind"] = Reason(row.mbind_errno);
  for (size_t i = 0; i < numa::kCounterNames.size(); ++i) {
    OrderedJson& counter = json["counters"][numa::kCounterNames[i]];
    if (row.counts.errors[i] != 0) {
      counter = Reason(row.counts.errors[i]);
    } else {
      counter = row.counts.values[i];
    }
  }
  return json;
}

std::string Labels(const Row& row) {
  return std::string("setting=\"") + ToString(row.setting.kind) + "\",cpu_node=\"" +
         (row.setting.cpu_node < 0 ? "all" : std::to_string(row.setting.cpu_node)) +
         "\",memory_nodes=\"" + NodesOf(row) + "\",workers=\"" +
         std::to_string(row.setting.work.cpus.size()) + "\",of=\"" +
         (row.setting.work.processes ? "processes" : "threads") + "\"";
}

// From white (nothing) to a strong blue.
std::string Shade(double part) {
  const auto mix = [part](int from, int to) {
    return static_cast<int>(from + std::clamp(part, 0.0, 1.0) * (to - from));
  };
  std::array<char, 8> text{};
  snprintf(text.data(), text.size(), "#%02x%02x%02x", static_cast<unsigned>(mix(0xea, 0x2b)),
           static_cast<unsigned>(mix(0xf2, 0x7a)), static_cast<unsigned>(mix(0xfb, 0xc4)));
  return text.data();
}

// One square of nodes by nodes; returns how high it is.
double HeatSquare(const Report& report, bool latency, double left, Svg* svg) {
  constexpr double kCell = 84, kSide = 64, kTop = 70;
  double most = 0;
  for (const Row& row : report.rows) {
    const Row* pair = Pair(report, row.setting.cpu_node, row.setting.memory_node(), latency);
    if (pair == nullptr) continue;
    most =
        std::max(most, latency ? pair->nanoseconds.median : pair->bytes_per_second[kTriad].median);
  }
  svg->Text(left, 26, latency ? "Latency, ns" : "Triad, GB/s", 16);
  svg->Text(left, 46, "CPUs of (down), memory of (across)", 11);
  for (size_t column = 0; column < report.nodes.size(); ++column) {
    const double x = left + kSide + static_cast<double>(column) * kCell;
    svg->Text(x + kCell / 2, kTop - 6, "node " + std::to_string(report.nodes[column]), 12, true);
  }
  for (size_t line = 0; line < report.nodes.size(); ++line) {
    const double y = kTop + static_cast<double>(line) * kCell / 2;
    svg->Text(left, y + 26, "node " + std::to_string(report.nodes[line]), 12);
    for (size_t column = 0; column < report.nodes.size(); ++column) {
      const double x = left + kSide + static_cast<double>(column) * kCell;
      const Row* row = Pair(report, report.nodes[line], report.nodes[column], latency);
      if (row == nullptr) {
        svg->Box(x, y, kCell, kCell / 2, "#eeeeee", "#ffffff");
        continue;
      }
      const double value = latency ? row->nanoseconds.median : row->bytes_per_second[kTriad].median;
      const double part = most > 0 ? value / most : 0;
      svg->Box(x, y, kCell, kCell / 2, Shade(part), "#ffffff");
      svg->Text(x + kCell / 2, y + 26, Fixed(latency ? value : value / 1e9, 1), 14, true,
                part > 0.6 ? "#ffffff" : "#1f2328");
    }
  }
  return kTop + static_cast<double>(report.nodes.size()) * kCell / 2;
}

}  // namespace

std::string NumaTable(const Report& report) {
  std::string out = Heading(report);
  AddBandwidth(report, &out);
  if (!report.nodes.empty()) AddLatency(report, &out);
  AddSizes(report, &out);
  AddMessages(report, &out);
  AddEvidence(report, &out);
  return out;
}

OrderedJson NumaJson(const Report& report, const std::vector<MachineFact>& facts) {
  OrderedJson json = {{"nodes", report.nodes},
                      {"comparable", report.nodes.size() > 1},
                      {"repetitions", report.options.repetitions},
                      {"seed", report.options.seed},
                      {"arrayBytes", report.size.bytes},
                      {"cacheBytes", report.size.cache_bytes},
                      {"followsStreamRule", report.size.follows_rule},
                      {"hugePages", report.huge_pages}};
  json["cpuQuota"] = report.cpu_quota > 0 ? OrderedJson(report.cpu_quota) : OrderedJson();
  for (const numa::KernelInfo& kernel : kKernels) {
    json["bytesAnElement"][kernel.name] = {{"counted", kernel.counted}, {"moved", kernel.moved}};
  }
  json["settings"] = OrderedJson::array();
  for (const Row& row : report.rows) json["settings"].push_back(RowJson(row));
  for (const auto& [node, counts] : report.numastat) {
    json["numastat"][std::to_string(node)] = counts;
  }
  json["gpuCopies"] = {{"measured", false}, {"reason", numa::kNoGpuCopies}};
  json["machine"] = ToJson(facts);
  return json;
}

std::string NumaPrometheus(const Report& report) {
  const std::string name = "lockstep_numa_bench_";
  std::string bandwidth;
  std::string latency;
  std::string placed;
  std::string message_latency;
  std::string message_rate;
  const auto sample = [&name](const char* what, const std::string& labels,
                              const std::string& value) {
    return name + what + "{" + labels + "} " + value + "\n";
  };
  for (const Row& row : report.rows) {
    if (!row.failed.empty() || row.setting.kind == Kind::kSizes) continue;
    if (row.setting.kind == Kind::kMessages) {
      const std::string nodes = "from_node=\"" + std::to_string(row.setting.cpu_node) +
                                "\",to_node=\"" + NodesOf(row) + "\"";
      message_latency +=
          sample("message_latency_seconds", nodes, Fixed(row.nanoseconds.median / 1e9, 12));
      message_rate +=
          sample("message_bytes_per_second", nodes, Fixed(row.message_bytes_per_second.median, 0));
      continue;
    }
    const std::string labels = Labels(row);
    if (IsLatency(row)) {
      latency += sample("latency_seconds", labels, Fixed(row.nanoseconds.median / 1e9, 12));
    }
    for (size_t i = 0; i < kKernels.size() && !IsLatency(row); ++i) {
      bandwidth +=
          sample("bandwidth_bytes_per_second", labels + ",kernel=\"" + kKernels[i].name + "\"",
                 Fixed(row.bytes_per_second[i].median, 0));
    }
    if (row.placed >= 0) placed += sample("placed_ratio", labels, Fixed(row.placed, 4));
  }
  const auto family = [&name](const char* what, const char* help, const std::string& samples) {
    return "# HELP " + name + what + " " + help + "\n# TYPE " + name + what + " gauge\n" + samples;
  };
  return family("bandwidth_bytes_per_second",
                "Median over the runs of STREAM's kernels, counted as STREAM counts.", bandwidth) +
         family("latency_seconds", "Median over the runs of one step of a pointer chase.",
                latency) +
         family("placed_ratio", "Least share of pages that were on the requested node.", placed) +
         family("message_latency_seconds",
                "Median over the runs of a short message between processes, one way.",
                message_latency) +
         family("message_bytes_per_second",
                "Median over the runs of large messages between processes.", message_rate);
}

std::string NumaHeatMap(const Report& report) {
  Svg svg;
  const double square = std::max(84.0 * static_cast<double>(report.nodes.size()) + 64, 250.0);
  const double bottom = HeatSquare(report, false, 20, &svg);
  HeatSquare(report, true, 50 + square, &svg);
  svg.Text(20, bottom + 24,
           "lockstep bench numa, medians of " + std::to_string(report.options.repetitions) +
               " runs" + (report.nodes.size() > 1 ? "" : ": one NUMA node, nothing to compare"),
           11);
  return svg.Finish(2 * square + 70, bottom + 40);
}

}  // namespace lockstep::cli
