// One rank of tests/system/gpu/run: gpu_check start|kernels|products|values|model|bench|wait|again,
// with RANK, WORLD_SIZE and so on in the environment. Writes JSON lines; exits with 0, with 1 where
// something is wrong, and with 75 when it lost a peer.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "core/exit_codes.h"
#include "tests/system/gpu/products.h"
#include "tests/system/gpu/start.h"
#include "tests/system/gpu/values.h"
#include "tests/worker/trainer/cuda/device/cases.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/collectives/group/cuda_bench.h"
#include "worker/trainer/cuda/check/cuda_check.h"
#include "worker/trainer/cuda/slice_sum.h"

namespace lockstep::gpu {
namespace {

using collectives::Communicator;

int Failed(const Error& error) {
  std::cout << R"({"error": )" << std::quoted(error.message) << "}" << std::endl;
  return 1;
}

double SecondsSince(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

int RunStart(int local_rank) {
  Result<StartReport> report = CheckStart(local_rank);
  if (!report.ok()) return Failed(report.error());
  std::cout << R"({"check": "device", "device": )" << std::quoted(report->device)
            << R"(, "capability": )" << report->capability << R"(, "driver": )" << report->driver
            << R"(, "cublaslt": )" << std::quoted(report->blas) << "}" << std::endl;
  for (const StartReport::Part& part : report->parts) {
    std::cout << R"({"check": "start", "part": )" << std::quoted(part.what) << R"(, "seconds": )"
              << part.seconds << R"(, "error": )" << std::quoted(part.error) << "}" << std::endl;
  }
  const auto there = [](const StartReport::Part& part) { return part.error.empty(); };
  return std::ranges::all_of(report->parts, there) ? 0 : 1;
}

int RunValues(Communicator& all, int local_rank, bool fake) {
  // Odd sizes, from one element to more than any of NCCL's buffers.
  for (const size_t count : {size_t{1}, size_t{1023}, size_t{100'003}, size_t{6'000'001}}) {
    if (fake && count > 1'000'000) break;
    Result<ValuesReport> report = CheckValues(all, local_rank, count);
    if (!report.ok()) return Failed(report.error());
    std::cout << R"({"check": "values", "backend": )" << std::quoted(all.Describe())
              << R"(, "rank": )" << all.rank() << R"(, "world": )" << all.world()
              << R"(, "count": )" << count << R"(, "operations": )" << report->operations
              << R"(, "wrong": )" << report->wrong << "}" << std::endl;
    if (report->wrong > 0) return 1;
  }
  return 0;
}

int RunModel(Communicator& all, int local_rank) {
  Result<trainer::CudaCheckReport> report = trainer::RunCudaCheck(all, {.local_rank = local_rank});
  if (!report.ok()) return Failed(report.error());
  if (all.rank() == 0) std::cout << trainer::ToJson(*report) << std::endl;
  return 0;
}

// Memory that the host and the GPU both read and write, from the driver's own library.
template <typename Function>
Function DriverFunction(const char* name) {
  const char* path = std::getenv("LOCKSTEP_CUDA_LIBRARY");
  void* library = dlopen(path == nullptr ? "libcuda.so.1" : path, RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}
void* AllocateManaged(size_t bytes) {
  constexpr unsigned kGlobal = 1;  // CU_MEM_ATTACH_GLOBAL
  static const auto allocate =
      DriverFunction<collectives::cuda::Code (*)(collectives::cuda::Address*, size_t, unsigned)>(
          "cuMemAllocManaged");
  collectives::cuda::Address address = 0;
  if (allocate == nullptr || allocate(&address, bytes, kGlobal) != collectives::cuda::kSuccess) {
    std::fputs("cuMemAllocManaged failed\n", stderr);
    std::exit(1);
  }
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}
void FreeManaged(void* memory) {
  static const auto free =
      DriverFunction<collectives::cuda::Code (*)(collectives::cuda::Address)>("cuMemFree_v2");
  free(reinterpret_cast<collectives::cuda::Address>(memory));
}

// Every kernel against double precision, three times to the same bits.
int RunKernels(int local_rank) {
  Result<std::shared_ptr<const collectives::CudaDevice>> device =
      collectives::CudaDevice::Open(local_rank);
  if (!device.ok()) return Failed(device.error());
  Result<trainer::Kernels> kernels = trainer::Kernels::Load(*device);
  if (!kernels.ok()) return Failed(kernels.error());
  if (Status entered = (*device)->Enter(); !entered.ok()) return Failed(entered.error());
  trainer::gpu::gpu = {&*kernels, AllocateManaged, FreeManaged};
  bool good = true;
  for (const trainer::gpu::Case& each : trainer::gpu::AllCases()) {
    const trainer::gpu::Outcome first = each.run({});
    std::string wrong = Judge(first, first);
    for (int again = 0; again < 2 && wrong.empty(); ++again) wrong = Judge(each.run({}), first);
    good = good && wrong.empty();
    double error = 0;
    for (const trainer::gpu::Output& output : first.outputs)
      error = std::max(error, ErrorOf(output));
    std::cout << R"({"check": "kernel", "kernel": )" << std::quoted(each.name) << R"(, "error": )"
              << error << R"(, "wrong": )" << std::quoted(wrong) << "}" << std::endl;
  }
  return good ? 0 : 1;
}

int RunProducts(int local_rank, bool fake) {
  Result<std::vector<ProductReport>> reports = CheckProducts(local_rank, fake);
  if (!reports.ok()) return Failed(reports.error());
  for (const ProductReport& report : *reports) {
    std::cout << R"({"check": "product", "product": )" << std::quoted(report.product)
              << R"(, "error": )" << report.error << R"(, "same_bits": )" << std::boolalpha
              << report.same_bits << R"(, "tflops": )" << report.tflops << "}" << std::endl;
  }
  return std::ranges::all_of(*reports, &ProductReport::good) ? 0 : 1;
}

int RunBench(Communicator& all, int local_rank, bool fake) {
  Result<std::unique_ptr<collectives::BenchMemory>> memory =
      collectives::MakeDeviceMemory(local_rank);
  if (!memory.ok()) return Failed(memory.error());
  collectives::BenchOptions options;
  options.memory = memory->get();
  options.factor = 8;
  if (fake) options.end = size_t{1} << 16;
  Result<collectives::BenchReport> report = BenchAllReduce(all, options);
  if (!report.ok()) return Failed(report.error());
  if (all.rank() == 0) std::cout << ToJsonLines(*report) << std::flush;
  return report->passed ? 0 : 1;
}

// What ranks add up while they wait for one of them to go.
Result<collectives::DeviceMemory> Buffer(int local_rank) {
  Result<std::shared_ptr<const collectives::CudaDevice>> device =
      collectives::CudaDevice::Open(local_rank);
  if (!device.ok()) return device.error();
  Result<collectives::DeviceMemory> memory =
      collectives::DeviceMemory::Allocate(*device, sizeof(float) << 20U);
  if (!memory.ok()) return memory.error();
  if (Status cleared = memory->Clear(); !cleared.ok()) return cleared.error();
  return memory;
}

// Reduces until a peer is gone, and returns what an operation then says.
Error ReduceForever(Communicator& all, const collectives::DeviceMemory& memory) {
  std::cout << R"({"waiting": )" << all.rank() << "}" << std::endl;
  for (;;) {
    Status done = all.AllReduce({memory.data(), 1U << 20U, collectives::DataType::kFloat32},
                                collectives::Reduction::kSum, "wait");
    if (!done.ok()) return done.error();
  }
}

int RunWait(Communicator& all, int local_rank) {
  Result<collectives::DeviceMemory> memory = Buffer(local_rank);
  if (!memory.ok()) return Failed(memory.error());
  (void)ReduceForever(all, *memory);
  // on_failure ends the process.
  for (;;) pause();
}

Result<collectives::Options> NcclOptions() {
  Result<collectives::Options> options = collectives::OptionsFromEnvironment();
  if (!options.ok()) return options.error();
  options->backend = collectives::Backend::kNccl;
  options->slice_sum = trainer::MakeSliceSum;
  return options;
}

// One communicator after the other in this process, each until a peer of it is killed: at each of
// `ports`, as that generation.
int RunAgain(int count, char** ports) {
  for (int round = 0; round < count; ++round) {
    setenv("MASTER_PORT", ports[round], 1);
    setenv("LOCKSTEP_GENERATION", std::to_string(round + 1).c_str(), 1);
    Result<collectives::Options> options = NcclOptions();
    if (!options.ok()) return Failed(options.error());
    options->operation_timeout = seconds(5);
    options->on_failure = [](const Error&) {};
    Result<collectives::DeviceMemory> memory = Buffer(options->local_rank);
    if (!memory.ok()) return Failed(memory.error());
    auto began = std::chrono::steady_clock::now();
    Result<std::unique_ptr<Communicator>> all = Connect(*options);
    if (!all.ok()) return Failed(all.error());
    const double connected = SecondsSince(began);
    const Error error = ReduceForever(**all, *memory);
    began = std::chrono::steady_clock::now();
    all->reset();
    std::cout << R"({"check": "again", "round": )" << round << R"(, "connect_seconds": )"
              << connected << R"(, "abort_seconds": )" << SecondsSince(began) << R"(, "said": )"
              << std::quoted(error.message) << "}" << std::endl;
    // NCCL's threads are still there: no communicator of this process would work.
    if (collectives::ThreadsLeftBehind()) _exit(1);
  }
  return 0;
}

int Main(const std::string& what, bool fake) {
  Result<collectives::Options> options = NcclOptions();
  if (!options.ok()) return Failed(options.error());
  if (what == "start") return RunStart(options->local_rank);
  if (what == "kernels") return RunKernels(options->local_rank);
  if (what == "products") return RunProducts(options->local_rank, fake);
  if (what == "wait") options->operation_timeout = seconds(5);
  options->on_failure = [](const Error& error) {
    Failed(error);
    _exit(lockstep::core::kExitPeerLost);
  };
  const auto began = std::chrono::steady_clock::now();
  Result<std::unique_ptr<Communicator>> all = Connect(*options);
  if (!all.ok()) return Failed(all.error());
  const int local_rank = options->local_rank;
  std::cout << R"({"check": "connect", "rank": )" << options->rank << R"(, "world": )"
            << options->world << R"(, "seconds": )" << SecondsSince(began) << R"(, "backend": )"
            << std::quoted((*all)->Describe()) << "}" << std::endl;
  int code = 2;
  if (what == "values") code = RunValues(**all, local_rank, fake);
  if (what == "model") code = RunModel(**all, local_rank);
  if (what == "bench") code = RunBench(**all, local_rank, fake);
  if (what == "wait") code = RunWait(**all, local_rank);
  Status finished = (*all)->Finish();
  return code == 0 && !finished.ok() ? Failed(finished.error()) : code;
}

}  // namespace
}  // namespace lockstep::gpu

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(
        "usage: gpu_check start|kernels|products|values|model|bench|wait [fake]\n"
        "       gpu_check again PORT...\n",
        stderr);
    return 2;
  }
  if (std::string_view(argv[1]) == "again") return lockstep::gpu::RunAgain(argc - 2, argv + 2);
  return lockstep::gpu::Main(argv[1], argc > 2 && std::string_view(argv[2]) == "fake");
}
