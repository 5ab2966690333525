// Memory that the ranks of one fake communicator share, and how they meet in it: each operation
// moves through it in chunks, and every chunk says what operation it belongs to.
#ifndef LOCKSTEP_TESTS_FAKE_NCCL_EXCHANGE_H_
#define LOCKSTEP_TESTS_FAKE_NCCL_EXCHANGE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace lockstep::fake_nccl {

inline constexpr int kMaxRanks = 16;
inline constexpr size_t kChunk = size_t{256} << 10;  // bytes
inline constexpr size_t kMailChunk = size_t{32} << 10;

// What all ranks must agree on, chunk by chunk.
struct Signature {
  uint64_t number = 0;  // of the operation on this rank
  int32_t kind = 0;
  int32_t type = 0;
  int32_t op = 0;
  int32_t root = 0;
  uint64_t count = 0;

  bool operator==(const Signature&) const = default;
};

// A chunk on its way: `posted` goes up when it is filled, `taken` when its readers are through.
template <size_t kBytes>
struct Slot {
  std::atomic<uint64_t> posted;
  std::atomic<uint64_t> taken;
  Signature signature;
  std::array<char, kBytes> data;
};

using Mail = Slot<kMailChunk>;

struct Region {
  std::atomic<uint32_t> bell;  // a futex: rung at each change
  std::atomic<int32_t> world;
  std::atomic<int32_t> arrived;
  std::array<std::atomic<uint64_t>, kMaxRanks> launched;    // operations, by rank
  std::array<Slot<kChunk>, kMaxRanks> slots;                // by rank
  std::array<std::array<Mail, kMaxRanks>, kMaxRanks> mail;  // [from][to]
};

// The identity of a region: which process made it, and as which file descriptor. It vanishes with
// its last user, however that ends.
struct RegionId {
  int32_t pid = 0;
  int32_t fd = -1;
};

class Exchange {
 public:
  // Makes the region that an id stands for; it lives as long as this process.
  static bool Make(RegionId* id);
  // Null if its maker is gone.
  static std::unique_ptr<Exchange> Open(const RegionId& id);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Region& region() { return *region_; }
  // False once stopped.
  bool WaitUntil(const std::function<bool()>& reached);
  void Ring();
  // WaitUntil returns from now on.
  void Stop();
  bool stopped() const { return stopped_.load(); }

 private:
  explicit Exchange(Region* region) : region_(region) {}

  Region* region_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace lockstep::fake_nccl

#endif  // LOCKSTEP_TESTS_FAKE_NCCL_EXCHANGE_H_
