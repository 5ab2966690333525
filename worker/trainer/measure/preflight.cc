#include "worker/trainer/measure/preflight.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

#include "base/text/json.h"
#include "base/time.h"
#include "worker/measure/measure.h"
#include "worker/trainer/model/product.h"

namespace lockstep::trainer {
namespace {

using collectives::BenchMemory;
using collectives::Communicator;
using collectives::DataType;

constexpr Duration kRoundTime = milliseconds(250);
constexpr size_t kSide = 256;                   // of the matrices
constexpr size_t kArray = size_t{4} << 20;      // elements of each of memory's
constexpr size_t kMessage = size_t{256} << 10;  // between two machines
constexpr int64_t kMostMessages = 256;
constexpr size_t kAllReduced = size_t{1} << 20;

double RateOfProducts(int threads) {
  return RateOf(threads, 2e-9 * kSide * kSide * kSide, [] {
    std::vector<float> values(kSide * kSide, 0.5F);
    auto work = [values, product = values]() mutable {
      Multiply({kSide, kSide, kSide}, Operand<float>{values.data(), kSide},
               Operand<float>{values.data(), kSide}, Output<float>{product.data(), kSide});
    };
    work();  // makes its kernel
    return work;
  });
}

// What two machines say to each other.
class Links {
 public:
  static Result<Links> Create(Communicator* all, BenchMemory* memory) {
    Result<void*> message = memory->Allocate(kMessage);
    if (!message.ok()) return message.error();
    Result<void*> count = memory->Allocate(sizeof(int64_t));
    if (!count.ok()) return count.error();
    return Links(all, memory, *message, *count);
  }

  // GB/s with `peer`, one way after the other. The lower rank says how often.
  Result<double> Measure(int peer) const {
    int64_t messages = 1;
    Result<Duration> time = Exchange(peer, 1);  // connects, and warms up
    if (time.ok()) time = Exchange(peer, 1);
    if (!time.ok()) return time.error();
    const bool leads = all_->rank() < peer;
    if (leads) {
      messages = std::clamp<int64_t>(kRoundTime / std::max(*time, Duration(1)), 1, kMostMessages);
      if (Status up = memory_->Upload(count_, &messages, sizeof messages); !up.ok()) {
        return up.error();
      }
    }
    if (Status told = leads ? all_->Send({count_, 1, DataType::kInt64}, peer, "preflight")
                            : all_->Receive({count_, 1, DataType::kInt64}, peer, "preflight");
        !told.ok()) {
      return told.error();
    }
    if (!leads) {
      if (Status down = memory_->Download(&messages, count_, sizeof messages); !down.ok()) {
        return down.error();
      }
    }
    time = Exchange(peer, messages);
    if (!time.ok()) return time.error();
    return 2e-9 * kMessage * static_cast<double>(messages) / InSeconds(*time);
  }

 private:
  Links(Communicator* all, BenchMemory* memory, void* message, void* count)
      : all_(all), memory_(memory), message_(message), count_(count) {}

  Result<Duration> Exchange(int peer, int64_t messages) const {
    const Time began = BootTime();
    for (int64_t i = 0; i < 2 * messages; ++i) {
      const bool sends = (all_->rank() < peer) == (i % 2 == 0);
      const collectives::Span span{message_, kMessage, DataType::kByte};
      Status done =
          sends ? all_->Send(span, peer, "preflight") : all_->Receive(span, peer, "preflight");
      if (!done.ok()) return done.error();
    }
    return BootTime() - began;
  }

  Communicator* all_;
  BenchMemory* memory_;
  void* message_;
  void* count_;
};

// The median over its partners: one slow partner doesn't make a machine slow.
Result<double> LinkRate(Communicator& all, const PreflightOptions& options, BenchMemory* memory) {
  const Result<Links> links = Links::Create(&all, memory);
  if (!links.ok()) return links.error();
  const int machines = all.world() / options.processes;
  std::vector<double> rates;
  for (const auto& round : core::PairRounds(machines, core::kMostPairRounds)) {
    if (Status together = all.Barrier("preflight"); !together.ok()) return together.error();
    for (const auto& [one, other] : round) {
      const int first = one * options.processes;
      const int second = other * options.processes;
      if (all.rank() != first && all.rank() != second) continue;
      const Result<double> rate = links->Measure(all.rank() == first ? second : first);
      if (!rate.ok()) return rate.error();
      rates.push_back(*rate);
    }
  }
  return core::MedianLink(std::move(rates));
}

// By kind, as they travel.
using SentFigures = std::array<float, core::kFigureKinds.size()>;

// Of each machine the least of its ranks' figures, on all ranks.
Result<std::vector<MachineFigures>> Gather(Communicator& all, const PreflightOptions& options,
                                           const Figures& figures, BenchMemory* memory) {
  SentFigures own{};
  for (size_t i = 0; i < own.size(); ++i) {
    own[i] = static_cast<float>(figures.*core::kFigureKinds[i].value);
  }
  const auto world = static_cast<size_t>(all.world());
  const Result<void*> in = memory->Allocate(sizeof own);
  if (!in.ok()) return in.error();
  const Result<void*> out = memory->Allocate(world * sizeof own);
  if (!out.ok()) return out.error();
  if (Status up = memory->Upload(*in, own.data(), sizeof own); !up.ok()) return up.error();
  Status gathered =
      all.AllGather({*in, own.size(), DataType::kFloat32},
                    {*out, world * own.size(), DataType::kFloat32}, "preflight's figures");
  if (!gathered.ok()) return gathered.error();
  std::vector<SentFigures> ranks(world);
  if (Status down = memory->Download(ranks.data(), *out, world * sizeof own); !down.ok()) {
    return down.error();
  }
  const auto processes = static_cast<size_t>(options.processes);
  std::vector<MachineFigures> machines(world / processes);
  for (size_t rank = 0; rank < world; ++rank) {
    for (size_t i = 0; i < own.size(); ++i) {
      const double figure = ranks[rank][i];
      double& least = machines[rank / processes].figures.*core::kFigureKinds[i].value;
      if (figure >= 0) least = least < 0 ? figure : std::min(least, figure);
    }
  }
  return machines;
}

}  // namespace

bool PreflightReport::passed() const {
  return std::all_of(machines.begin(), machines.end(),
                     [](const MachineFigures& machine) { return machine.well(); });
}

Result<PreflightReport> Preflight(Communicator& all, const PreflightOptions& options) {
  if (options.processes < 1 || all.world() % options.processes != 0) {
    return Error::Invalid("a world of " + std::to_string(all.world()) +
                          " does not divide into machines of " + std::to_string(options.processes) +
                          " processes");
  }
  const std::unique_ptr<BenchMemory> host = collectives::MakeHostMemory();
  BenchMemory* memory = options.memory != nullptr ? options.memory : host.get();
  Figures own;
  if (Status together = all.Barrier("preflight"); !together.ok()) return together.error();
  own.products = RateOfProducts(options.threads);
  if (Status together = all.Barrier("preflight"); !together.ok()) return together.error();
  own.memory = MemoryRate(options.threads, kArray);
  if (Status together = all.Barrier("preflight"); !together.ok()) return together.error();
  if (!options.folder.empty() && all.rank() % options.processes == 0) {
    const Result<double> rate = DiskRate(options.folder, std::to_string(all.rank()));
    if (!rate.ok()) return rate.error();
    own.disk = *rate;
  }
  const Result<double> link = LinkRate(all, options, memory);
  if (!link.ok()) return link.error();
  own.link = *link;
  Result<std::vector<MachineFigures>> machines = Gather(all, options, own, memory);
  if (!machines.ok()) return machines.error();
  PreflightReport report{.machines = std::move(*machines)};
  core::Judge(options.limits, &report.machines);
  if (!report.passed() || all.world() == 1) return report;
  const Result<collectives::BenchReport> reduced = BenchAllReduce(all, {.begin = kAllReduced,
                                                                        .end = kAllReduced,
                                                                        .warmup = 1,
                                                                        .iterations = 5,
                                                                        .memory = options.memory});
  if (!reduced.ok()) return reduced.error();
  report.busbw = reduced->rows.front().busbw;
  return report;
}

std::string ToTable(const PreflightReport& report) {
  std::string table = FigureTable(report.machines);
  if (report.busbw > 0) {
    std::array<char, 32> busbw{};
    std::snprintf(busbw.data(), busbw.size(), "%.3g", report.busbw);
    table += std::string("allreduce of 1 MiB: ") + busbw.data() + " GB/s of bus bandwidth\n";
  }
  return table;
}

std::string ToJsonLine(const PreflightReport& report) {
  Json machines = Json::array();
  for (const MachineFigures& machine : report.machines) {
    Json json = {{"slow", machine.slow}};
    for (const core::FigureKind& kind : core::kFigureKinds) {
      if (machine.figures.*kind.value >= 0) json[kind.name] = machine.figures.*kind.value;
    }
    machines.push_back(std::move(json));
  }
  return DumpJson(Json{{"type", "preflight"},
                       {"passed", report.passed()},
                       {"busbw", report.busbw},
                       {"machines", std::move(machines)}}) +
         "\n";
}

}  // namespace lockstep::trainer
