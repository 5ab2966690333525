#include "worker/trainer/collectives/group/bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/text/json.h"

namespace lockstep::collectives {
namespace {

// Allreduces of at most this many times go between ranks at once.
constexpr int kMostIterations = 100'000;

class HostMemory final : public BenchMemory {
 public:
  Result<void*> Allocate(size_t bytes) override {
    blocks_.emplace_back(new (std::nothrow) std::byte[std::max<size_t>(bytes, 1)]);
    if (blocks_.back() == nullptr) return Error::TooLarge("this machine has no more");
    return blocks_.back().get();
  }
  Status Upload(void* to, const void* from_host, size_t bytes) override {
    std::memcpy(to, from_host, bytes);
    return {};
  }
  Status Download(void* to_host, const void* from, size_t bytes) override {
    std::memcpy(to_host, from, bytes);
    return {};
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

// Small integers: their float32 sums are exact in any order, up to 2^24 / 31 ranks.
float Pattern(int rank, size_t i) {
  return static_cast<float>((i * 7 + static_cast<size_t>(rank) * 13) % 31);
}

float PatternSum(int world, size_t i) {
  float sum = 0;
  for (int rank = 0; rank < world; ++rank) sum += Pattern(rank, i);
  return sum;
}

double Microseconds(Duration duration) { return static_cast<double>(duration.count()) / 1e3; }

// One benchmark on one Communicator.
class Bench {
 public:
  Bench(Communicator* all, const BenchOptions& options, BenchMemory* memory)
      : all_(*all), options_(options), memory_(*memory) {}

  // Makes all ranks fail if one has no memory.
  Status Prepare(size_t count) {
    Result<void*> flag = memory_.Allocate(sizeof(int64_t));
    if (!flag.ok()) return flag.error();
    Result<void*> times =
        memory_.Allocate(static_cast<size_t>(options_.iterations) * sizeof(int64_t));
    if (!times.ok()) return times.error();
    const Result<void*> buffer = memory_.Allocate(count * sizeof(float));
    flag_ = *flag;
    times_ = *times;
    if (buffer.ok()) buffer_ = *buffer;
    int64_t missing = buffer.ok() ? 0 : 1;
    if (Status sum = SumOf(&missing, 1, flag_, Reduction::kSum); !sum.ok()) return sum;
    if (missing == 0) return {};
    return Error::TooLarge(std::to_string(missing) + " of " + std::to_string(all_.world()) +
                           " ranks have no memory for " + std::to_string(count * sizeof(float)) +
                           " bytes; end at a smaller size (-e)" +
                           (buffer.ok() ? "" : ". Here: " + buffer.error().message));
  }

  Result<BenchRow> Measure(size_t count) {
    host_.resize(count);
    for (size_t i = 0; i < count; ++i) host_[i] = 1;
    if (Status up = Upload(); !up.ok()) return up.error();
    const Span buffer{buffer_, count, DataType::kFloat32};
    std::vector<int64_t> times(static_cast<size_t>(options_.iterations));
    for (int i = -options_.warmup; i < options_.iterations; ++i) {
      // kMax leaves equal values as they are: a sum would grow beyond float32.
      const Time began = BootTime();
      if (Status done = all_.AllReduce(buffer, Reduction::kMax, "bench"); !done.ok()) {
        return done.error();
      }
      if (i >= 0) times[static_cast<size_t>(i)] = (BootTime() - began).count();
    }
    // The slowest rank's time of each iteration.
    Status agreed = SumOf(times.data(), times.size(), times_, Reduction::kMax);
    if (!agreed.ok()) return agreed.error();
    BenchRow row = Summary(count, std::move(times));
    if (options_.check) {
      Result<uint64_t> wrong = CountWrong(count);
      if (!wrong.ok()) return wrong.error();
      row.wrong = *wrong;
    }
    return row;
  }

 private:
  Status Upload() { return memory_.Upload(buffer_, host_.data(), host_.size() * sizeof(float)); }

  // Reduces `values` over all ranks, through `device` in the backend's memory.
  Status SumOf(int64_t* values, size_t count, void* device, Reduction op) {
    if (Status up = memory_.Upload(device, values, count * sizeof *values); !up.ok()) return up;
    Status done = all_.AllReduce({device, count, DataType::kInt64}, op, "bench's figures");
    if (!done.ok()) return done;
    return memory_.Download(values, device, count * sizeof *values);
  }

  Result<uint64_t> CountWrong(size_t count) {
    for (size_t i = 0; i < count; ++i) host_[i] = Pattern(all_.rank(), i);
    if (Status up = Upload(); !up.ok()) return up.error();
    Status done = all_.AllReduce({buffer_, count, DataType::kFloat32}, Reduction::kSum, "check");
    if (!done.ok()) return done.error();
    Status down = memory_.Download(host_.data(), buffer_, count * sizeof(float));
    if (!down.ok()) return down.error();
    int64_t wrong = 0;
    for (size_t i = 0; i < count; ++i) wrong += host_[i] == PatternSum(all_.world(), i) ? 0 : 1;
    if (Status sum = SumOf(&wrong, 1, flag_, Reduction::kSum); !sum.ok()) return sum.error();
    return static_cast<uint64_t>(wrong);
  }

  BenchRow Summary(size_t count, std::vector<int64_t> times) const {
    std::sort(times.begin(), times.end());
    const auto at = [&](double share) {
      const auto index =
          static_cast<size_t>(std::lround(share * static_cast<double>(times.size() - 1)));
      return Microseconds(Duration(times[index]));
    };
    double sum = 0;
    for (const int64_t time : times) sum += Microseconds(Duration(time));
    BenchRow row;
    row.bytes = count * sizeof(float);
    row.count = count;
    row.mean = sum / static_cast<double>(times.size());
    row.p50 = at(0.5);
    row.p99 = at(0.99);
    row.max = at(1);
    const double world = all_.world();
    row.algbw = static_cast<double>(row.bytes) / 1e3 / std::max(row.mean, 1e-3);
    row.busbw = row.algbw * 2 * (world - 1) / world;
    return row;
  }

  Communicator& all_;
  const BenchOptions& options_;
  BenchMemory& memory_;
  void* buffer_ = nullptr;
  void* times_ = nullptr;
  void* flag_ = nullptr;
  std::vector<float> host_;
};

Status Check(const BenchOptions& options) {
  if (options.begin < sizeof(float) || options.end < options.begin) {
    return Error::Invalid("sizes go from 4 bytes (-b) up to the largest (-e)");
  }
  if (options.factor < 2) return Error::Invalid("the factor between sizes (-f) is at least 2");
  if (options.iterations < 1 || options.iterations > kMostIterations || options.warmup < 0) {
    return Error::Invalid("iterations: 1 to " + std::to_string(kMostIterations));
  }
  return {};
}

std::vector<size_t> Counts(const BenchOptions& options) {
  std::vector<size_t> counts;
  for (size_t bytes = options.begin; bytes <= options.end; bytes *= options.factor) {
    counts.push_back(bytes / sizeof(float));
    if (bytes > options.end / options.factor) break;
  }
  return counts;
}

bool Passed(const BenchReport& report) {
  const bool right = std::all_of(report.rows.begin(), report.rows.end(),
                                 [](const BenchRow& row) { return row.wrong == 0; });
  return right && (report.world == 1 || report.rows.back().busbw >= report.min_busbw);
}

template <typename... Args>
std::string Format(const char* format, Args... args) {
  char line[256];
  std::snprintf(line, sizeof line, format, args...);
  return line;
}

}  // namespace

std::unique_ptr<BenchMemory> MakeHostMemory() { return std::make_unique<HostMemory>(); }

Result<BenchReport> BenchAllReduce(Communicator& all, const BenchOptions& options) {
  if (Status checked = Check(options); !checked.ok()) return checked.error();
  if (options.memory == nullptr && all.memory() != Memory::kHost) {
    return Error::Invalid("buffers of " + all.Describe() + " live in device memory");
  }
  const std::unique_ptr<BenchMemory> host = MakeHostMemory();
  Bench bench(&all, options, options.memory != nullptr ? options.memory : host.get());
  const std::vector<size_t> counts = Counts(options);
  if (Status ready = bench.Prepare(counts.back()); !ready.ok()) return ready.error();
  BenchReport report;
  report.backend = all.Describe();
  report.world = all.world();
  report.min_busbw = options.min_busbw;
  for (const size_t count : counts) {
    Result<BenchRow> row = bench.Measure(count);
    if (!row.ok()) return row.error();
    report.rows.push_back(*row);
  }
  Fit(&report);
  report.passed = Passed(report);
  return report;
}

// Least squares of (alpha + bytes / bandwidth - time) / time.
void Fit(BenchReport* report) {
  double ones = 0;     // sum of 1 / t^2
  double bytes = 0;    // of b / t^2
  double squares = 0;  // of b^2 / t^2
  double inverse = 0;  // of 1 / t
  double rates = 0;    // of b / t
  for (const BenchRow& row : report->rows) {
    const double t = std::max(row.p50, 1e-3);
    const auto b = static_cast<double>(row.bytes);
    ones += 1 / (t * t);
    bytes += b / (t * t);
    squares += b * b / (t * t);
    inverse += 1 / t;
    rates += b / t;
  }
  const double determinant = ones * squares - bytes * bytes;
  double alpha = ones > 0 ? inverse / ones : 0;
  double slope = 0;
  if (report->rows.size() > 1 && determinant > 0) {
    alpha = std::max(0.0, (inverse * squares - rates * bytes) / determinant);
    slope = std::max(0.0, (rates - alpha * bytes) / squares);
  }
  report->alpha = alpha;
  report->bandwidth = slope > 0 ? 1 / slope / 1e3 : 0;
  for (BenchRow& row : report->rows) {
    row.predicted = alpha + slope * static_cast<double>(row.bytes);
  }
}

std::string ToTable(const BenchReport& report) {
  std::string out = "# allreduce, float32, in place, " + std::to_string(report.world) +
                    (report.world == 1 ? " rank, " : " ranks, ") + report.backend + "\n" +
                    "# times in microseconds, of the slowest rank; bandwidths in GB/s\n" +
                    Format("#%11s %11s %10s %10s %10s %10s %8s %8s %10s %7s\n", "bytes", "count",
                           "mean", "p50", "p99", "max", "algbw", "busbw", "predicted", "#wrong");
  for (const BenchRow& row : report.rows) {
    out += Format("%12zu %11zu %10.1f %10.1f %10.1f %10.1f %8.3f %8.3f %10.1f %7llu\n", row.bytes,
                  row.count, row.mean, row.p50, row.p99, row.max, row.algbw, row.busbw,
                  row.predicted, static_cast<unsigned long long>(row.wrong));
  }
  out += Format("# fitted: %.1f us + bytes / %.3f GB/s\n", report.alpha, report.bandwidth);
  if (report.passed) return out + "# passed\n";
  return out +
         Format("# FAILED: wrong values, or below %.3f GB/s of bus bandwidth\n", report.min_busbw);
}

std::string ToJsonLines(const BenchReport& report) {
  std::string out;
  for (const BenchRow& row : report.rows) {
    const Json line = {{"type", "size"},     {"bytes", row.bytes},
                       {"count", row.count}, {"mean_us", row.mean},
                       {"p50_us", row.p50},  {"p99_us", row.p99},
                       {"max_us", row.max},  {"algbw", row.algbw},
                       {"busbw", row.busbw}, {"predicted_us", row.predicted},
                       {"wrong", row.wrong}};
    out += DumpJson(line) + "\n";
  }
  const Json summary = {{"type", "summary"},
                        {"operation", "allreduce"},
                        {"backend", report.backend},
                        {"world", report.world},
                        {"alpha_us", report.alpha},
                        {"bandwidth", report.bandwidth},
                        {"min_busbw", report.min_busbw},
                        {"passed", report.passed}};
  return out + DumpJson(summary) + "\n";
}

}  // namespace lockstep::collectives
