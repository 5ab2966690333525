#include "worker/measure/measure.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "base/unique_fd.h"

namespace lockstep {
namespace {

constexpr size_t kSlice = size_t{1} << 16;  // elements of memory's arrays
constexpr size_t kChunk = size_t{4} << 20;  // bytes of a write
constexpr size_t kMostWritten = size_t{64} << 20;

struct TriadArrays {
  explicit TriadArrays(size_t elements)
      : a(new double[elements]), b(new double[elements]), c(new double[elements]) {}
  std::unique_ptr<double[]> a;  // NOLINT(modernize-avoid-c-arrays)
  std::unique_ptr<double[]> b;  // NOLINT(modernize-avoid-c-arrays)
  std::unique_ptr<double[]> c;  // NOLINT(modernize-avoid-c-arrays)
  size_t size = 0;
  size_t at = 0;
};

}  // namespace

double InSeconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

double RateOf(int threads, double amount, const std::function<std::function<void()>()>& make_work) {
  std::vector<double> rates(static_cast<size_t>(threads));
  const auto measure = [&](size_t i) {
    const std::function<void()> work = make_work();
    const Time began = BootTime();
    double done = 0;
    Duration elapsed{};
    do {
      work();
      done += amount;
      elapsed = BootTime() - began;
    } while (elapsed < kMeasureTime);
    rates[i] = done / InSeconds(elapsed);
  };
  ThreadGroup others;
  for (size_t i = 1; i < rates.size(); ++i) {
    const Status started = others.Start([&measure, i] { measure(i); });
    // A rate of fewer cores would call a good machine slow.
    if (!started.ok()) throw std::runtime_error(started.error().message);
  }
  measure(0);
  others.Join();
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

// Slice by slice. The arrays are as large as can be touched in the time of a part: a core that is
// held back gets no further.
double MemoryRate(int threads, size_t elements) {
  elements = std::max(elements / kSlice, size_t{1}) * kSlice;
  return RateOf(threads, 1e-9 * 3 * sizeof(double) * kSlice, [elements] {
    auto arrays = std::make_shared<TriadArrays>(elements);
    const Time began = BootTime();
    do {
      for (double* array : {arrays->a.get(), arrays->b.get(), arrays->c.get()}) {
        std::fill_n(array + arrays->size, kSlice, 0.5);
      }
      arrays->size += kSlice;
    } while (arrays->size < elements && BootTime() - began < kMeasureTime);
    return [arrays] {
      const size_t end = arrays->at + kSlice;
      double* const a = arrays->a.get();
      const double* const b = arrays->b.get();
      const double* const c = arrays->c.get();
      for (size_t i = arrays->at; i < end; ++i) a[i] = b[i] + 3 * c[i];
      arrays->at = end % arrays->size;
    };
  });
}

Result<double> DiskRate(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/.lockstep-preflight-" + name;
  const UniqueFd file(open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return ErrnoError("making " + path, errno);
  unlink(path.c_str());
  const std::vector<char> chunk(kChunk, '\1');
  const Time began = BootTime();
  size_t written = 0;
  while (written < kMostWritten && BootTime() - began < kMeasureTime) {
    const ssize_t count = write(file.get(), chunk.data(), chunk.size());
    if (count < 0 && errno != EINTR) return ErrnoError("writing " + path, errno);
    if (count > 0) written += static_cast<size_t>(count);
    if (fdatasync(file.get()) != 0) return ErrnoError("syncing " + path, errno);
  }
  return 1e-9 * static_cast<double>(written) / InSeconds(BootTime() - began);
}

}  // namespace lockstep
