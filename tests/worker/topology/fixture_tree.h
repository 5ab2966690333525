// A machine's sys/, proc/ and dev/ in a temporary directory, as far as Discover reads them.
#ifndef LOCKSTEP_TESTS_WORKER_TOPOLOGY_FIXTURE_TREE_H_
#define LOCKSTEP_TESTS_WORKER_TOPOLOGY_FIXTURE_TREE_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/text/index_list.h"

namespace lockstep::topology {

class FixtureTree {
 public:
  FixtureTree() {
    std::string pattern = ::testing::TempDir() + "/machine-XXXXXX";
    root_ = mkdtemp(pattern.data());
    File("proc/mounts", "");
    File("proc/meminfo", "MemTotal: 16777216 kB\n");
  }
  ~FixtureTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  FixtureTree(const FixtureTree&) = delete;
  FixtureTree& operator=(const FixtureTree&) = delete;

  const std::string& root() const { return root_; }

  FixtureTree& File(const std::string& path, const std::string& text) {
    const std::filesystem::path full = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
    return *this;
  }

  // A core of SMT siblings, of one package.
  FixtureTree& Core(int package, const IndexList& cpus) {
    ++cores_;
    for (const int cpu : cpus) {
      const std::string topology = CpuPath(cpu) + "/topology/";
      File(topology + "core_id", std::to_string(cores_) + "\n");
      File(topology + "physical_package_id", std::to_string(package) + "\n");
      File(topology + "core_cpus", Mask(cpus));
      File(topology + "thread_siblings", Mask(cpus));
      present_ = Union(present_, {cpu});
    }
    std::sort(present_.begin(), present_.end());
    return *this;
  }
  // A CPU that is there but switched off: it has no topology folder.
  FixtureTree& OfflineCpu(int cpu) {
    File(CpuPath(cpu) + "/online", "0\n");
    offline_ = Union(offline_, {cpu});
    return *this;
  }
  FixtureTree& Node(int id, const IndexList& cpus, const std::string& distances) {
    const std::string node = "sys/devices/system/node/node" + std::to_string(id);
    File(node + "/cpumap", Mask(cpus));
    File(node + "/cpulist", FormatIndexList(cpus) + "\n");
    File(node + "/distance", distances + "\n");
    File(node + "/meminfo", "Node " + std::to_string(id) + " MemTotal: 8388608 kB\n");
    nodes_ = Union(nodes_, {id});
    return *this;
  }
  // A PCI device; `minor` < 0: the driver doesn't show it.
  FixtureTree& Pci(const std::string& address, const std::string& vendor,
                   const std::string& device_class, int numa_node, int minor = -1) {
    const std::string device = "sys/bus/pci/devices/" + address;
    File(device + "/vendor", vendor + "\n");
    File(device + "/class", device_class + "\n");
    File(device + "/numa_node", std::to_string(numa_node) + "\n");
    if (minor >= 0) {
      File("proc/driver/nvidia/gpus/" + address + "/information",
           "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-" + std::to_string(minor) +
               "aaa-bb\nDevice Minor: \t " + std::to_string(minor) + "\n");
    }
    return *this;
  }
  // A link to a folder that is made.
  FixtureTree& Link(const std::string& path, const std::string& target) {
    const std::filesystem::path full = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(full.parent_path());
    std::filesystem::create_directories(std::filesystem::path(root_) / target);
    std::filesystem::create_directory_symlink(std::filesystem::path(root_) / target, full);
    return *this;
  }
  FixtureTree& Allowed(const std::string& cpus, const std::string& mems) {
    return File("proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t" + cpus +
                                        "\nMems_allowed_list:\t" + mems + "\n");
  }
  // The files that list what was added; call it last.
  FixtureTree& Finish() {
    const IndexList all = Union(present_, offline_);
    File("sys/devices/system/cpu/online", FormatIndexList(present_) + "\n");
    File("sys/devices/system/cpu/possible", FormatIndexList(all) + "\n");
    File("sys/devices/system/cpu/present", FormatIndexList(all) + "\n");
    File("sys/devices/system/node/online", FormatIndexList(nodes_) + "\n");
    File("sys/devices/system/node/possible", FormatIndexList(nodes_) + "\n");
    return *this;
  }

 private:
  static std::string CpuPath(int cpu) { return "sys/devices/system/cpu/cpu" + std::to_string(cpu); }
  // Of CPUs below 32.
  static std::string Mask(const IndexList& cpus) {
    unsigned bits = 0;
    for (const int cpu : cpus) bits |= 1U << cpu;
    char text[16];
    snprintf(text, sizeof text, "%08x\n", bits);
    return text;
  }

  std::string root_;
  IndexList present_;
  IndexList offline_;
  IndexList nodes_;
  int cores_ = -1;
};

}  // namespace lockstep::topology

#endif  // LOCKSTEP_TESTS_WORKER_TOPOLOGY_FIXTURE_TREE_H_
