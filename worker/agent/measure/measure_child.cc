#include "worker/agent/measure/measure_child.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text/ascii.h"
#include "core/exit_codes.h"
#include "core/gang/protocol/messages.h"
#include "worker/agent/gang/frame.h"
#include "worker/agent/measure/gpu_rates.h"
#include "worker/agent/measure/link_rate.h"
#include "worker/measure/measure.h"

namespace lockstep::agent {
namespace {

constexpr size_t kSide = 256;                // of the matrices
constexpr size_t kArrays = size_t{8} << 20;  // doubles of each of memory's three, of all threads
constexpr int kMostThreads = 128;

struct Matrices {
  std::vector<float> a = std::vector<float>(kSide * kSide, 0.5F);
  std::vector<float> b = a;
  std::vector<float> c = a;
};

void MultiplyMatrices(Matrices& m) {
  for (size_t row = 0; row < kSide; ++row) {
    float* const out = m.c.data() + row * kSide;
    std::fill_n(out, kSide, 0.0F);
    for (size_t k = 0; k < kSide; ++k) {
      const float factor = m.a[row * kSide + k];
      const float* const in = m.b.data() + k * kSide;
      for (size_t column = 0; column < kSide; ++column) out[column] += factor * in[column];
    }
  }
}

// GFLOP/s. Its kernel is none of the fastest; it is the same on every machine.
double ProductRate(int threads) {
  return RateOf(threads, 2e-9 * kSide * kSide * kSide,
                [] { return [matrices = Matrices()]() mutable { MultiplyMatrices(matrices); }; });
}

int OwnCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::clamp(CPU_COUNT(&set), 1, kMostThreads);
}

void MeasureAlone(const std::string& machine, const std::string& folder, bool gpus,
                  core::Measured* measured) {
  const int threads = OwnCpus();
  core::Figures& figures = measured->figures;
  figures.products = ProductRate(threads);
  figures.memory = MemoryRate(threads, kArrays / static_cast<size_t>(threads));
  if (gpus) {
    GpuRates rates = MeasureGpus();
    measured->gpus = std::move(rates.gpus);
    figures.gpu_link = rates.link;
  }
  if (folder.empty()) return;
  const Result<double> disk = DiskRate(folder, machine);
  if (disk.ok()) {
    figures.disk = *disk;
  } else {
    std::fprintf(stderr, "lockstep-agent: preflight: %s\n", disk.error().message.c_str());
  }
}

// nullopt: there is no next one.
std::optional<core::Measure> NextMeasure(FrameSplitter& frames) {
  std::array<char, 4096> buffer;
  for (;;) {
    if (const std::optional<std::string_view> body = frames.Next()) {
      Result<core::Message> message = core::Decode(*body);
      if (!message.ok() || !std::holds_alternative<core::Measure>(*message)) return std::nullopt;
      return std::get<core::Measure>(std::move(*message));
    }
    const ssize_t got = read(kMeasureFd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    frames.Feed({buffer.data(), static_cast<size_t>(got)});
  }
}

}  // namespace

int MeasureMain(int argc, char** argv) {
  const auto machine = argc == 6 ? ParseNumber<uint32_t>(argv[3]) : std::nullopt;
  if (!machine) return core::kExitConfiguration;
  Result<LinkMeter> links = LinkMeter::Listen(argv[2], *machine);
  if (!links.ok()) std::fprintf(stderr, "lockstep-agent: %s\n", links.error().message.c_str());
  const bool gpus = std::string_view(argv[5]) == kMeasureGpus;
  FrameSplitter frames(core::kMaxMessage);
  while (const std::optional<core::Measure> asked = NextMeasure(frames)) {
    core::Measured measured;
    measured.id = asked->id;
    measured.linked = asked->linked;
    if (asked->alone) MeasureAlone(argv[3], argv[4], gpus, &measured);
    if (links.ok()) {
      measured.address = links->address();
      measured.token = links->token();
      measured.rates = links->Measure(asked->partners);
    }
    const Status told = WriteAll(kMeasureFd, EncodeFrame(core::Encode(measured)), "the agent");
    if (!told.ok() || asked->linked) break;
  }
  return core::kExitSuccess;
}

}  // namespace lockstep::agent
