// Machines of which the shape is public, as files of hwloc's XML: sockets, NUMA nodes, caches, SMT,
// where the GPUs and network cards hang, distances. Serial numbers and sizes are made up.
#ifndef LOCKSTEP_TESTS_WORKER_TOPOLOGY_MACHINE_XML_H_
#define LOCKSTEP_TESTS_WORKER_TOPOLOGY_MACHINE_XML_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/text/index_list.h"

namespace lockstep::topology {

struct XmlMachine {
  int packages = 2;
  int nodes_per_package = 1;
  int caches_per_node = 1;
  int cores_per_cache = 1;
  int threads = 1;             // siblings are numbered behind all cores, as by Linux
  std::vector<int> gpu_nodes;  // the NUMA node beside each GPU
  int gpus_per_switch = 1;     // each with as many network cards, if `nics`
  bool nics = false;
  int gpu_memory_nodes = 0;                   // of each package, numbered behind those with CPUs
  std::vector<std::vector<int>> distances{};  // of all nodes

  int nodes() const { return packages * nodes_per_package; }
  int cores_per_node() const { return caches_per_node * cores_per_cache; }
  int cores() const { return nodes() * cores_per_node(); }

  std::string Xml() const {
    std::string text =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
        "<topology version=\"2.0\">\n";
    IndexList all_nodes;
    for (int node = 0; node < nodes() + packages * gpu_memory_nodes; ++node) {
      all_nodes.push_back(node);
    }
    text += Open("Machine", 0, CpusOf(0, cores()), all_nodes,
                 " allowed_cpuset=\"" + Mask(CpusOf(0, cores())) + "\" allowed_nodeset=\"" +
                     Mask(all_nodes) + "\"");
    for (int package = 0; package < packages; ++package) text += PackageXml(package);
    text += "</object>\n" + Distances() + "</topology>\n";
    return text;
  }

 private:
  static std::string NextId() {
    static int last = 0;
    return std::to_string(++last);
  }
  static std::string Mask(const IndexList& list) {
    std::vector<unsigned> words(list.empty() ? 1 : static_cast<size_t>(list.back()) / 32 + 1);
    for (const int index : list) {
      words[static_cast<size_t>(index) / 32] |= 1U << (static_cast<unsigned>(index) % 32);
    }
    std::string text;
    for (size_t i = words.size(); i-- > 0;) {
      std::array<char, 16> word;
      snprintf(word.data(), word.size(), "0x%08x", words[i]);
      text += word.data() + std::string(i > 0 ? "," : "");
    }
    return text;
  }
  IndexList CpusOf(int first_core, int count) const {
    IndexList cpus;
    for (int thread = 0; thread < threads; ++thread) {
      for (int core = first_core; core < first_core + count; ++core) {
        cpus.push_back(thread * cores() + core);
      }
    }
    return cpus;
  }
  std::string Open(const std::string& type, int index, const IndexList& cpus,
                   const IndexList& memory, const std::string& more = "",
                   bool close = false) const {
    const std::string cpu_mask = Mask(cpus);
    const std::string node_mask = Mask(memory);
    return "<object type=\"" + type + "\" os_index=\"" + std::to_string(index) + "\" cpuset=\"" +
           cpu_mask + "\" complete_cpuset=\"" + cpu_mask + "\" nodeset=\"" + node_mask +
           "\" complete_nodeset=\"" + node_mask + "\" gp_index=\"" + NextId() + "\"" + more +
           (close ? "/>\n" : ">\n");
  }
  std::string PackageXml(int package) const {
    const int first_node = package * nodes_per_package;
    IndexList memory;
    for (int node = first_node; node < first_node + nodes_per_package; ++node) {
      memory.push_back(node);
    }
    for (int i = 0; i < gpu_memory_nodes; ++i) {
      memory.push_back(nodes() + package * gpu_memory_nodes + i);
    }
    const int package_cores = nodes_per_package * cores_per_node();
    const IndexList cpus = CpusOf(package * package_cores, package_cores);
    std::string text = Open("Package", package, cpus, memory);
    for (int i = 0; i < gpu_memory_nodes; ++i) {
      const int node = nodes() + package * gpu_memory_nodes + i;
      text += Open("NUMANode", node, cpus, {node},
                   " subtype=\"GPUMemory\" local_memory=\"100000000000\"", /*close=*/true);
    }
    for (int i = 0; i < nodes_per_package; ++i) text += NodeXml(first_node + i);
    return text + "</object>\n";
  }
  std::string NodeXml(int node) const {
    const IndexList cpus = CpusOf(node * cores_per_node(), cores_per_node());
    std::string text;
    if (nodes_per_package > 1)
      text += Open("Group", node, cpus, {node}, " kind=\"0\" subkind=\"0\"");
    text += Open("NUMANode", node, cpus, {node}, " local_memory=\"500000000000\"", /*close=*/true);
    for (int c = 0; c < caches_per_node; ++c) {
      const int first = node * cores_per_node() + c * cores_per_cache;
      text += Open("L3Cache", first / cores_per_cache, CpusOf(first, cores_per_cache), {node},
                   " cache_size=\"33554432\" depth=\"3\" cache_linesize=\"64\""
                   " cache_associativity=\"16\" cache_type=\"0\"");
      for (int core = first; core < first + cores_per_cache; ++core) {
        text += Open("Core", core, CpusOf(core, 1), {node});
        for (const int cpu : CpusOf(core, 1)) text += Open("PU", cpu, {cpu}, {node}, "", true);
        text += "</object>\n";
      }
      text += "</object>\n";
    }
    text += DevicesOf(node);
    if (nodes_per_package > 1) text += "</object>\n";
    return text;
  }
  // A root complex for each switch, as the machines have them.
  std::string DevicesOf(int node) const {
    std::string text;
    for (size_t gpu = 0; gpu < gpu_nodes.size(); gpu += static_cast<size_t>(gpus_per_switch)) {
      if (gpu_nodes[gpu] != node) continue;
      const int bus = 16 * (static_cast<int>(gpu) + 1);
      text += Bridge("0-1", bus, "", bus, bus + 15) +
              Bridge("1-1", bus, "01.0", bus + 1, bus + 15) +
              Bridge("1-1", bus + 1, "00.0", bus + 2, bus + 15);
      int device = bus + 3;
      for (int i = 0; i < gpus_per_switch; ++i) {
        text += Device(device++, "0302 [10de:2330] [10de:1626] a1", "",
                       "GPU-" + std::to_string(gpu + static_cast<size_t>(i)));
        if (!nics) continue;
        text += Device(device++, "0207 [15b3:1021] [15b3:0023] 00",
                       "mlx5_" + std::to_string(gpu + static_cast<size_t>(i)), "");
      }
      text += "</object>\n</object>\n</object>\n";
    }
    return text;
  }
  static std::string Bus(int bus, const std::string& device) {
    std::array<char, 32> text;
    snprintf(text.data(), text.size(), "0000:%02x:%s", static_cast<unsigned>(bus), device.c_str());
    return text.data();
  }
  std::string Bridge(const std::string& type, int bus, const std::string& device, int from,
                     int to) const {
    std::array<char, 64> range;
    snprintf(range.data(), range.size(), "0000:[%02x-%02x]", static_cast<unsigned>(from),
             static_cast<unsigned>(to));
    return "<object type=\"Bridge\" gp_index=\"" + NextId() + "\" bridge_type=\"" + type +
           "\" depth=\"" + (device.empty() ? "0" : "1") + "\" bridge_pci=\"" + range.data() + "\"" +
           (device.empty() ? ""
                           : " pci_busid=\"" + Bus(bus, device) +
                                 "\" pci_type=\"0604 [1000:c030] [0000:0000] 00\""
                                 " pci_link_speed=\"31.5\"") +
           ">\n";
  }
  std::string Device(int bus, const std::string& type, const std::string& rdma,
                     const std::string& uuid) const {
    std::string text = "<object type=\"PCIDev\" gp_index=\"" + NextId() + "\" pci_busid=\"" +
                       Bus(bus, "00.0") + "\" pci_type=\"" + type +
                       "\" pci_link_speed=\"31.5\">\n<object type=\"OSDev\" gp_index=\"" +
                       NextId() + "\" name=\"" + (rdma.empty() ? "nvml" + uuid.substr(4) : rdma) +
                       "\" osdev_type=\"" + (rdma.empty() ? "1" : "3") + "\">\n";
    if (!uuid.empty()) text += "<info name=\"NVIDIAUUID\" value=\"" + uuid + "\"/>\n";
    return text + "</object>\n</object>\n";
  }
  std::string Distances() const {
    if (distances.empty()) return "";
    std::string indexes;
    std::string values;
    for (size_t i = 0; i < distances.size(); ++i) {
      indexes += std::to_string(i) + " ";
      for (const int value : distances[i]) values += std::to_string(value) + " ";
    }
    const auto element = [](const std::string& name, const std::string& text) {
      return "<" + name + " length=\"" + std::to_string(text.size()) + "\">" + text + "</" + name +
             ">\n";
    };
    return "<distances2 type=\"NUMANode\" nbobjs=\"" + std::to_string(distances.size()) +
           "\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">\n" + element("indexes", indexes) +
           element("u64values", values) + "</distances2>\n";
  }
};

// Two sockets of 56 cores, four GPUs on each, every two of them on a switch with two cards.
inline XmlMachine DgxLike() {
  return {.cores_per_cache = 56,
          .threads = 2,
          .gpu_nodes = {0, 0, 0, 0, 1, 1, 1, 1},
          .gpus_per_switch = 2,
          .nics = true,
          .distances = {{10, 21}, {21, 10}}};
}

// Two EPYC sockets in NPS4: four nodes each, of two caches with eight cores. The GPUs' order is not
// that of the nodes, and half of the nodes have none.
inline XmlMachine EpycNps4() {
  XmlMachine machine{.nodes_per_package = 4,
                     .caches_per_node = 2,
                     .cores_per_cache = 8,
                     .threads = 2,
                     .gpu_nodes = {3, 3, 1, 1, 7, 7, 5, 5},
                     .gpus_per_switch = 2,
                     .nics = true};
  for (int from = 0; from < 8; ++from) {
    machine.distances.emplace_back();
    for (int to = 0; to < 8; ++to) {
      machine.distances.back().push_back(from == to ? 10 : from / 4 == to / 4 ? 12 : 32);
    }
  }
  return machine;
}

// Two Grace CPUs of 72 cores without SMT, two GPUs on each, and sixteen nodes of GPU memory a CPU.
inline XmlMachine Grace() {
  return {.cores_per_cache = 72, .gpu_nodes = {0, 0, 1, 1}, .gpu_memory_nodes = 16};
}

// The file of a machine, while this lives.
class XmlFile {
 public:
  explicit XmlFile(const XmlMachine& machine) : XmlFile(machine.Xml()) {}
  explicit XmlFile(const std::string& text) {
    path_ = ::testing::TempDir() + "/machine-XXXXXX";
    close(mkstemp(path_.data()));
    std::ofstream(path_) << text;
  }
  ~XmlFile() { unlink(path_.c_str()); }
  XmlFile(const XmlFile&) = delete;
  XmlFile& operator=(const XmlFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace lockstep::topology

#endif  // LOCKSTEP_TESTS_WORKER_TOPOLOGY_MACHINE_XML_H_
