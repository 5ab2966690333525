#include "worker/trainer/run/preflight.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/text/columns.h"
#include "base/text/json.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "worker/trainer/model/product.h"

namespace lockstep::trainer {
namespace {

using collectives::BenchMemory;
using collectives::Communicator;
using collectives::DataType;

constexpr Duration kPartTime = milliseconds(500);
constexpr Duration kRoundTime = milliseconds(250);
constexpr int kMostRounds = 8;
constexpr size_t kSide = 256;               // of the matrices
constexpr size_t kArray = size_t{4} << 20;  // elements of the three arrays of memory's
constexpr size_t kSlice = size_t{1} << 16;  // of them
constexpr size_t kChunk = size_t{4} << 20;  // of a write
constexpr size_t kMostWritten = size_t{64} << 20;
constexpr size_t kMessage = size_t{256} << 10;  // between two machines
constexpr int64_t kMostMessages = 256;
constexpr size_t kAllReduced = size_t{1} << 20;

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// `work`, which does so much, again and again for kPartTime on each of so many threads: how much
// was done a second, in all. The mean, for a core that is held back runs at full speed between.
template <typename MakeWork>
double RateOf(int threads, double amount, const MakeWork& make_work) {
  std::vector<double> rates(static_cast<size_t>(threads));
  const auto measure = [&](size_t i) {
    auto work = make_work();
    const Time began = BootTime();
    double done = 0;
    Duration elapsed{};
    do {
      work();
      done += amount;
      elapsed = BootTime() - began;
    } while (elapsed < kPartTime);
    rates[i] = done / Seconds(elapsed);
  };
  std::vector<std::jthread> others;
  for (size_t i = 1; i < rates.size(); ++i) others.emplace_back(measure, i);
  measure(0);
  others.clear();
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

double Products(int threads) {
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

// STREAM's triad, counted as STREAM counts, slice by slice. The arrays are as large as can be
// touched in the time of a part: a core that is held back gets no further.
double MemoryRate(int threads) {
  return RateOf(threads, 1e-9 * 3 * sizeof(double) * kSlice, [] {
    struct Arrays {
      std::unique_ptr<double[]> a{new double[kArray]};  // NOLINT(modernize-avoid-c-arrays)
      std::unique_ptr<double[]> b{new double[kArray]};  // NOLINT(modernize-avoid-c-arrays)
      std::unique_ptr<double[]> c{new double[kArray]};  // NOLINT(modernize-avoid-c-arrays)
      size_t size = 0;
      size_t at = 0;
    } arrays;
    const Time began = BootTime();
    do {
      for (double* array : {arrays.a.get(), arrays.b.get(), arrays.c.get()}) {
        std::fill_n(array + arrays.size, kSlice, 0.5);
      }
      arrays.size += kSlice;
    } while (arrays.size < kArray && BootTime() - began < kPartTime);
    return [arrays = std::move(arrays)]() mutable {
      const size_t end = arrays.at + kSlice;
      for (size_t i = arrays.at; i < end; ++i) arrays.a[i] = arrays.b[i] + 3 * arrays.c[i];
      arrays.at = end % arrays.size;
    };
  });
}

// Of a file that is synced, and gone afterwards.
Result<float> DiskRate(const std::string& folder, int rank) {
  const std::string path = folder + "/.lockstep-preflight-" + std::to_string(rank);
  const UniqueFd file(open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return ErrnoError("making " + path, errno);
  unlink(path.c_str());
  const std::vector<char> chunk(kChunk, '\1');
  const Time began = BootTime();
  size_t written = 0;
  while (written < kMostWritten && BootTime() - began < kPartTime) {
    const ssize_t count = write(file.get(), chunk.data(), chunk.size());
    if (count < 0 && errno != EINTR) return ErrnoError("writing " + path, errno);
    if (count > 0) written += static_cast<size_t>(count);
    if (fdatasync(file.get()) != 0) return ErrnoError("syncing " + path, errno);
  }
  return static_cast<float>(1e-9 * static_cast<double>(written) / Seconds(BootTime() - began));
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
    return 2e-9 * kMessage * static_cast<double>(messages) / Seconds(*time);
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
Result<float> LinkRate(Communicator& all, const PreflightOptions& options, BenchMemory* memory) {
  const Result<Links> links = Links::Create(&all, memory);
  if (!links.ok()) return links.error();
  const int machines = all.world() / options.processes;
  std::vector<double> rates;
  for (const auto& round : PairRounds(machines, kMostRounds)) {
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
  if (rates.empty()) return kNotMeasured;
  const auto middle = rates.begin() + static_cast<ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return static_cast<float>(*middle);
}

// Of each machine the least of its ranks' figures, on all ranks.
Result<std::vector<MachineFigures>> Gather(Communicator& all, const PreflightOptions& options,
                                           const Figures& own, BenchMemory* memory) {
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
  std::vector<Figures> ranks(world);
  if (Status down = memory->Download(ranks.data(), *out, world * sizeof own); !down.ok()) {
    return down.error();
  }
  const auto processes = static_cast<size_t>(options.processes);
  std::vector<MachineFigures> machines(world / processes);
  for (size_t rank = 0; rank < world; ++rank) {
    Figures& figures = machines[rank / processes].figures;
    for (size_t part = 0; part < figures.size(); ++part) {
      const float figure = ranks[rank][part];
      if (figure < 0) continue;
      figures[part] = figures[part] < 0 ? figure : std::min(figures[part], figure);
    }
  }
  return machines;
}

std::string Number(double figure) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", figure);
  return text.data();
}

std::string With(size_t part, double figure) { return Number(figure) + " " + kPartUnits[part]; }

}  // namespace

bool PreflightReport::passed() const {
  return std::all_of(machines.begin(), machines.end(),
                     [](const MachineFigures& machine) { return machine.well(); });
}

void Judge(const PreflightOptions& options, std::vector<MachineFigures>* machines) {
  for (size_t part = 0; part < kPartNames.size(); ++part) {
    std::vector<float> figures;
    for (const MachineFigures& machine : *machines) {
      if (machine.figures[part] >= 0) figures.push_back(machine.figures[part]);
    }
    if (figures.empty()) continue;
    // Of an even number the lower one: of two machines neither is measured by the other.
    const auto middle = figures.begin() + static_cast<ptrdiff_t>((figures.size() - 1) / 2);
    std::nth_element(figures.begin(), middle, figures.end());
    const double median = *middle;
    for (MachineFigures& machine : *machines) {
      const double figure = machine.figures[part];
      if (figure < 0) continue;
      const std::string said = std::string(kPartNames[part]) + " " + With(part, figure);
      if (figure < options.least[part]) {
        machine.slow.push_back(said + ", and " + With(part, options.least[part]) + " is the least");
      } else if (figure < (1 - options.margin) * median) {
        machine.slow.push_back(said + ", where the median is " + With(part, median));
      }
    }
  }
}

// The circle method: one stays, the others go around.
std::vector<std::vector<std::pair<int, int>>> PairRounds(int count, int most) {
  std::vector<std::vector<std::pair<int, int>>> rounds;
  const int seats = count + count % 2;
  for (int round = 0; round < std::min(seats - 1, most); ++round) {
    const auto at = [&](int seat) { return seat == 0 ? 0 : 1 + (seat - 1 + round) % (seats - 1); };
    std::vector<std::pair<int, int>> pairs;
    for (int seat = 0; seat < seats / 2; ++seat) {
      const auto [low, high] = std::minmax({at(seat), at(seats - 1 - seat)});
      if (high < count) pairs.emplace_back(low, high);  // the last seat may be empty
    }
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

Result<PreflightReport> Preflight(Communicator& all, const PreflightOptions& options) {
  if (options.processes < 1 || all.world() % options.processes != 0) {
    return Error::Invalid("a world of " + std::to_string(all.world()) + " is no machines of " +
                          std::to_string(options.processes) + " processes");
  }
  const std::unique_ptr<BenchMemory> host = collectives::MakeHostMemory();
  BenchMemory* memory = options.memory != nullptr ? options.memory : host.get();
  Figures own{kNotMeasured, kNotMeasured, kNotMeasured, kNotMeasured};
  if (Status together = all.Barrier("preflight"); !together.ok()) return together.error();
  own[static_cast<size_t>(Part::kProducts)] = static_cast<float>(Products(options.threads));
  if (Status together = all.Barrier("preflight"); !together.ok()) return together.error();
  own[static_cast<size_t>(Part::kMemory)] = static_cast<float>(MemoryRate(options.threads));
  if (Status together = all.Barrier("preflight"); !together.ok()) return together.error();
  if (!options.folder.empty() && all.rank() % options.processes == 0) {
    const Result<float> rate = DiskRate(options.folder, all.rank());
    if (!rate.ok()) return rate.error();
    own[static_cast<size_t>(Part::kDisk)] = *rate;
  }
  const Result<float> link = LinkRate(all, options, memory);
  if (!link.ok()) return link.error();
  own[static_cast<size_t>(Part::kLink)] = *link;
  Result<std::vector<MachineFigures>> machines = Gather(all, options, own, memory);
  if (!machines.ok()) return machines.error();
  PreflightReport report{.machines = std::move(*machines)};
  Judge(options, &report.machines);
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
  std::vector<std::vector<std::string>> rows = {
      {"MACHINE", "PRODUCTS, GFLOP/s", "MEMORY, GB/s", "DISK, GB/s", "LINK, GB/s", ""}};
  for (size_t i = 0; i < report.machines.size(); ++i) {
    const MachineFigures& machine = report.machines[i];
    std::vector<std::string> row = {std::to_string(i)};
    for (const float figure : machine.figures) row.push_back(figure < 0 ? "" : Number(figure));
    row.emplace_back(machine.well() ? "" : "slow: ");
    for (const std::string& reason : machine.slow) {
      row.back() += (&reason == machine.slow.data() ? "" : "; ") + reason;
    }
    rows.push_back(std::move(row));
  }
  return AlignColumns(rows, "") +
         (report.busbw > 0
              ? "allreduce of 1 MiB: " + Number(report.busbw) + " GB/s of bus bandwidth\n"
              : "");
}

std::string ToJsonLine(const PreflightReport& report) {
  Json machines = Json::array();
  for (const MachineFigures& machine : report.machines) {
    Json json = {{"slow", machine.slow}};
    for (size_t part = 0; part < kPartNames.size(); ++part) {
      if (machine.figures[part] >= 0) json[kPartNames[part]] = machine.figures[part];
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
