#include "worker/trainer/measure/copy_bench.h"

#include <errno.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/text/ascii.h"
#include "base/text/columns.h"
#include "base/text/index_list.h"
#include "base/text/json.h"
#include "worker/topology/binding/placed_memory.h"
#include "worker/topology/small_file.h"
#include "worker/trainer/collectives/cuda/cuda.h"

namespace lockstep::trainer {
namespace {

using collectives::CudaDevice;
using collectives::CudaEvent;
using collectives::CudaStream;
using collectives::DeviceMemory;
using topology::MemoryNode;
using topology::PlacedMemory;
using Device = std::shared_ptr<const CudaDevice>;

std::vector<MemoryNode> Nodes(const topology::Machine& machine) {
  std::vector<MemoryNode> nodes;
  for (const topology::NumaNode& node : machine.numa_nodes) {
    const IndexList cpus = Intersect(node.cpus, machine.allowed_cpus);
    const bool memory = machine.allowed_mems.empty() || Contains(machine.allowed_mems, node.id);
    if (memory && !cpus.empty()) nodes.push_back({node.id, cpus.front()});
  }
  return nodes;
}

// Pages that stay where they are, and that the GPU reads and writes by itself.
class Pinned {
 public:
  static Result<Pinned> Pin(Device device, const PlacedMemory& memory) {
    if (Status entered = device->Enter(); !entered.ok()) return entered.error();
    if (Status pinned = device->driver().Check(
            "cuMemHostRegister",
            device->api().host_register(memory.begin(), memory.bytes(), /*flags=*/0));
        !pinned.ok())
      return pinned.error();
    return Pinned(std::move(device), memory.begin());
  }
  Pinned(Pinned&& other) noexcept
      : device_(std::move(other.device_)), begin_(std::exchange(other.begin_, nullptr)) {}
  Pinned& operator=(Pinned&&) = delete;
  ~Pinned() {
    if (begin_ != nullptr && device_->Enter().ok()) device_->api().host_unregister(begin_);
  }

 private:
  Pinned(Device device, char* begin) : device_(std::move(device)), begin_(begin) {}

  Device device_;
  char* begin_;
};

class CopyBench {
 public:
  static Result<CopyBench> Create(Device device, const CopyBenchOptions& options) {
    Result<CudaStream> stream = CudaStream::Create(device);
    if (!stream.ok()) return stream.error();
    Result<CudaEvent> start = CudaEvent::Create(device, /*timed=*/true);
    if (!start.ok()) return start.error();
    Result<CudaEvent> end = CudaEvent::Create(device, /*timed=*/true);
    if (!end.ok()) return end.error();
    Result<DeviceMemory> there = DeviceMemory::Allocate(device, options.bytes);
    if (!there.ok()) return there.error();
    return CopyBench(std::move(device), options, std::move(*stream), std::move(*start),
                     std::move(*end), std::move(*there));
  }

  // Fills in what it measures.
  Status Measure(const MemoryNode& node, CopyRow* row) const {
    row->memory_node = node.id;
    PlacedMemory here(options_.bytes);
    if (here.begin() == nullptr) return Error::TooLarge("this machine is out of memory");
    if (!here.Place({node}) || !topology::PinTo(node.cpu))
      return ErrnoError("binding to CPU " + std::to_string(node.cpu), errno);
    std::fill_n(here.begin(), here.bytes(), '\1');
    const Result<Pinned> pinned = Pinned::Pin(device_, here);
    if (!pinned.ok()) return pinned.error();
    for (const auto& [speed, to_gpu] : {std::pair(&row->to_gpu, true), {&row->from_gpu, false}}) {
      const Result<double> median = Median(here.begin(), to_gpu);
      if (!median.ok()) return median.error();
      *speed = *median;
    }
    const PlacedMemory::Pages pages = here.Count({node});
    if (pages.all > 0)
      row->placed = static_cast<double>(pages.placed) / static_cast<double>(pages.all);
    return {};
  }

 private:
  CopyBench(Device device, const CopyBenchOptions& options, CudaStream stream, CudaEvent start,
            CudaEvent end, DeviceMemory there)
      : device_(std::move(device)),
        options_(options),
        stream_(std::move(stream)),
        start_(std::move(start)),
        end_(std::move(end)),
        there_(std::move(there)) {}

  // Of GB/s; a first copy does not count.
  Result<double> Median(char* here, bool to_gpu) const {
    std::vector<double> speeds;
    for (int i = -1; i < options_.iterations; ++i) {
      const Result<Duration> time = Copy(here, to_gpu);
      if (!time.ok()) return time.error();
      const auto nanoseconds = static_cast<double>(std::max<Duration::rep>(time->count(), 1));
      if (i >= 0) speeds.push_back(static_cast<double>(options_.bytes) / nanoseconds);
    }
    const auto middle = speeds.begin() + static_cast<ptrdiff_t>(speeds.size() / 2);
    std::nth_element(speeds.begin(), middle, speeds.end());
    return *middle;
  }

  Result<Duration> Copy(char* here, bool to_gpu) const {
    if (Status recorded = start_.Record(stream_); !recorded.ok()) return recorded.error();
    const auto there = reinterpret_cast<uintptr_t>(there_.data());
    const collectives::cuda::Code code =
        to_gpu ? device_->api().copy_to_device(there, here, options_.bytes, stream_.get())
               : device_->api().copy_to_host(here, there, options_.bytes, stream_.get());
    if (Status put = device_->driver().Check("cuMemcpyAsync", code); !put.ok()) return put.error();
    if (Status recorded = end_.Record(stream_); !recorded.ok()) return recorded.error();
    if (Status waited = end_.Wait(); !waited.ok()) return waited.error();
    return end_.Since(start_);
  }

  Device device_;
  CopyBenchOptions options_;
  CudaStream stream_;
  CudaEvent start_;
  CudaEvent end_;
  DeviceMemory there_;
};

std::string Decimals(double value, int decimals) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string NodeText(int node) { return node < 0 ? "?" : std::to_string(node); }

}  // namespace

Result<CopyReport> BenchCopies(const topology::Machine& machine, const CopyBenchOptions& options) {
  CopyReport report{.options = options, .rows = {}};
  const Result<std::shared_ptr<const collectives::CudaDriver>> driver =
      collectives::CudaDriver::Load();
  if (!driver.ok()) return driver.error();
  const std::vector<MemoryNode> nodes = Nodes(machine);
  if (nodes.empty()) return Error::NotFound("this machine does not show which NUMA nodes it has");
  for (int gpu = 0; gpu < (*driver)->device_count(); ++gpu) {
    const Result<Device> device = CudaDevice::Open(gpu);
    if (!device.ok()) return device.error();
    const Result<std::string> address = (*device)->PciAddress();
    if (!address.ok()) return address.error();
    const Result<CopyBench> bench = CopyBench::Create(*device, options);
    if (!bench.ok()) return bench.error();
    const std::string node_file = "/sys/bus/pci/devices/" + *address + "/numa_node";
    const int gpu_node =
        ParseNumber<int>(topology::ReadSmallFile(node_file).value_or("")).value_or(-1);
    for (const MemoryNode& node : nodes) {
      CopyRow row{
          .gpu = gpu, .name = (*device)->name(), .pci_address = *address, .gpu_node = gpu_node};
      if (Status measured = bench->Measure(node, &row); !measured.ok()) return measured.error();
      report.rows.push_back(std::move(row));
    }
  }
  return report;
}

std::string ToTable(const CopyReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"GPU", "NAME", "ADDRESS", "ITS NODE", "MEMORY ON", "TO GPU", "FROM GPU", "PLACED"}};
  for (const CopyRow& row : report.rows) {
    rows.push_back({std::to_string(row.gpu), row.name, row.pci_address, NodeText(row.gpu_node),
                    NodeText(row.memory_node), Decimals(row.to_gpu, 1), Decimals(row.from_gpu, 1),
                    row.placed < 0 ? "?" : Decimals(100 * row.placed, 0) + " %"});
  }
  return "Pinned memory of each NUMA node and each GPU, " + std::to_string(report.options.bytes) +
         " bytes a copy, median of " + std::to_string(report.options.iterations) + ", in GB/s:\n" +
         AlignColumns(rows, "");
}

std::string ToJsonLines(const CopyReport& report) {
  std::string out;
  for (const CopyRow& row : report.rows) {
    const Json line = {{"type", "copies"},
                       {"gpu", row.gpu},
                       {"name", row.name},
                       {"pci_address", row.pci_address},
                       {"gpu_node", row.gpu_node < 0 ? Json() : Json(row.gpu_node)},
                       {"memory_node", row.memory_node},
                       {"bytes", report.options.bytes},
                       {"iterations", report.options.iterations},
                       {"to_gpu", row.to_gpu},
                       {"from_gpu", row.from_gpu},
                       {"placed", row.placed < 0 ? Json() : Json(row.placed)}};
    out += DumpJson(line) + "\n";
  }
  return out;
}

}  // namespace lockstep::trainer
