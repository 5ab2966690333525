#include "tests/fakes/emulator/emulator.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "base/sanitizer.h"
#ifdef LOCKSTEP_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Saves the caller's registers on its stack and its stack's top in *save, and takes the other's.
extern "C" void lockstep_switch(void** save, void* load);
asm(R"(.pushsection .text
.globl lockstep_switch
.type lockstep_switch, @function
lockstep_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size lockstep_switch, .-lockstep_switch
.popsection
)");

namespace lockstep::emulator {
namespace {

using trainer::gpu::HostKernel;
using trainer::gpu::LaunchShape;
using trainer::gpu::Where;

constexpr size_t kStack = size_t{128} * 1024;
constexpr size_t kGuard = 4096;
// Bytes between the tops of neighbours' stacks, and after how many it begins anew. At the same
// offset within their pages, all tops would share one set of the processor's cache.
constexpr size_t kStagger = 192;
constexpr unsigned kStaggered = 61;
constexpr unsigned kLanes = 32;

std::map<std::string_view, HostKernel>& Kernels() {
  static std::map<std::string_view, HostKernel> kernels;
  return kernels;
}

Site SiteOf(const Where& where) { return {where.file_name(), where.line(), where.column()}; }

// Pointers before names: lanes of a warp nearly always wait in the same line.
bool Same(const Where& a, const Where& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || SiteOf(a) == SiteOf(b));
}

// Where threads are switched to: their stacks, or the caller's of Run().
struct Context {
  void* top = nullptr;  // of the stack while it is left
  const void* bottom = nullptr;
  size_t size = 0;
};

// Stacks of a block's threads, with a page in front of each that nothing may touch.
class Stacks {
 public:
  explicit Stacks(unsigned count) : bytes_(count * (kStack + kGuard)), count_(count) {
    memory_ = static_cast<char*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED) std::abort();
    for (unsigned i = 0; i < count; ++i)
      mprotect(memory_ + i * (kStack + kGuard), kGuard, PROT_NONE);
  }
  ~Stacks() {
#ifdef LOCKSTEP_ASAN
    // Threads that were left in the middle leave their frames' marks.
    for (unsigned i = 0; i < count_; ++i) ASAN_UNPOISON_MEMORY_REGION(Bottom(i), kStack);
#endif
    munmap(memory_, bytes_);
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  char* Bottom(unsigned i) const { return memory_ + i * (kStack + kGuard) + kGuard; }
  // Where thread i's stack begins to grow downwards.
  char* Top(unsigned i) const { return Bottom(i) + kStack - i % kStaggered * kStagger; }
  unsigned count() const { return count_; }

 private:
  size_t bytes_;
  unsigned count_;
  char* memory_;
};

struct Copy {
  void* to;
  const void* from;
  bool valid;
};

void Land(const Copy& copy) {
  if (copy.valid) {
    std::memcpy(copy.to, copy.from, 16);
  } else {
    std::memset(copy.to, 0, 16);
  }
}

struct Thread {
  Context context;
  const char* operation = "its first line";
  Where waits_at;
  bool done = false;
  std::vector<Copy> copies;        // on their way, and then those of no group yet
  std::vector<size_t> group_ends;  // in copies

  void Reset() {
    operation = "its first line";
    waits_at = {};
    done = false;
    copies.clear();
    group_ends.clear();
  }
};

// What a warp's lanes hand each other in one exchange.
struct Exchange {
  float a[16][16];
  float b[16][8];
  uint64_t words[kLanes];
};

struct Warp {
  std::vector<unsigned> waiting;
  std::array<Exchange, 2> exchanges;  // in turn: one is read while the next is written
  std::array<unsigned, kLanes> turns{};
};

// The threads that can go on, in the order in which they came.
class ReadyQueue {
 public:
  void Clear() {
    threads_.clear();
    first_ = 0;
  }
  void Add(unsigned thread) { threads_.push_back(thread); }
  size_t size() const { return threads_.size() - first_; }
  unsigned Take(size_t i) {
    const auto at = threads_.begin() + static_cast<std::ptrdiff_t>(first_ + i);
    const unsigned thread = *at;
    if (i > 0) {
      threads_.erase(at);
    } else if (++first_ == kMost) {
      threads_.erase(threads_.begin(), threads_.begin() + kMost);
      first_ = 0;
    }
    return thread;
  }

 private:
  static constexpr size_t kMost = 1024;  // that were taken and are still in threads_

  std::vector<unsigned> threads_;
  size_t first_ = 0;  // of those that were not taken
};

// What every block needs anew. One is kept for all blocks that a thread of the host runs.
struct Room {
  std::unique_ptr<Stacks> stacks;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<unsigned> waiting;  // at the block's barrier
  ReadyQueue ready;

  void Reset(unsigned count) {
    if (stacks == nullptr || stacks->count() < count) stacks = std::make_unique<Stacks>(count);
    threads.resize(count);
    for (Thread& thread : threads) thread.Reset();
    warps.resize((count + kLanes - 1) / kLanes);
    for (Warp& warp : warps) {
      warp.waiting.clear();
      warp.turns.fill(0);
    }
    waiting.clear();
    ready.Clear();
  }
};

class Block {
 public:
  Block(const HostKernel& kernel, const void* arguments, const LaunchShape& shape,
        const Options& options, unsigned x, unsigned y, Room& room, char* shared)
      : x_(x),
        y_(y),
        shared_(shared),
        kernel_(kernel),
        arguments_(arguments),
        options_(options),
        room_(room),
        left_(shape.threads) {
    if (options.seed > 1) random_.seed(options.seed + x * 7919 + y * 104729);
    room.Reset(shape.threads);
    std::memset(shared_, 0xff, shape.shared_bytes);  // NaN, in every type
    for (unsigned i = 0; i < shape.threads; ++i) {
#ifdef LOCKSTEP_ASAN
      // The marks of Begin() and what it called last, which never return.
      constexpr size_t kLast = size_t{16} * 1024;
      ASAN_UNPOISON_MEMORY_REGION(room.stacks->Top(i) - kLast, kLast);
#endif
      // As lockstep_switch leaves a stack: six registers and where to go on.
      void** top = reinterpret_cast<void**>(room.stacks->Top(i)) - 2;
      top[0] = reinterpret_cast<void*>(&Block::Begin);
      top[1] = nullptr;
      std::fill_n(top - 6, 6, nullptr);
      room.threads[i].context = {static_cast<void*>(top - 6), room.stacks->Bottom(i), kStack};
      room.ready.Add(i);
    }
  }

  std::string Run();

  unsigned x() const { return x_; }
  unsigned y() const { return y_; }
  unsigned thread() const { return current_; }
  unsigned lane() const { return current_ % kLanes; }
  char* shared() const { return shared_; }

  void WaitForAll(const Where& where);
  void WaitForWarp(const char* operation, const Where& where);
  // The exchange that this lane writes to, until WaitForWarp, and reads after it.
  Exchange& NextExchange();
  void Add(const Copy& copy);
  void Commit();
  void WaitForGroups(int groups, const Where& where);
  // For good, with what `failure` says. Apart, for what a caller has on its stack is never freed.
  std::string& failure() { return failure_; }
  [[noreturn]] void Stop();

 private:
  static void Begin();
  bool Skips(const Where& where);
  void Note(const char* operation, const Where& where) {
    room_.threads[current_].operation = operation;
    room_.threads[current_].waits_at = where;
  }
  void TakeNext();
  void Leave();
  void Switch(Context& from, const Context& to, bool for_ever);
  std::string Waiting() const;

  const unsigned x_;
  const unsigned y_;
  char* const shared_;
  const HostKernel& kernel_;
  const void* const arguments_;
  const Options& options_;
  Room& room_;
  std::minstd_rand random_;
  unsigned left_;
  unsigned current_ = 0;
  Context caller_;
  std::string failure_;
};

// The one that this thread of the host runs. The kernels ask for it at every step, and in a library
// the default model calls a function each time.
[[gnu::tls_model("initial-exec")]] thread_local Block* block = nullptr;

std::string Describe(const char* operation, const Site& site) {
  const std::string_view file = site.file.substr(site.file.rfind('/') + 1);
  return std::string(operation) +
         (site.line == 0 ? "" : " (" + std::string(file) + ":" + std::to_string(site.line) + ")");
}

std::string Block::Run() {
  block = this;
  TakeNext();
  Switch(caller_, room_.threads[current_].context, false);
  block = nullptr;
  return failure_;
}

void Block::TakeNext() {
  size_t next = 0;
  if (options_.seed == 1) next = room_.ready.size() - 1;
  if (options_.seed > 1) next = random_() % room_.ready.size();
  current_ = room_.ready.Take(next);
}

// Goes on with another thread; with the caller of Run() when all are done, or none can go on.
void Block::Leave() {
  Thread& from = room_.threads[current_];
  if (room_.ready.size() == 0) {
    if (left_ > 0) failure_ = "threads wait for ever: " + Waiting();
    return Switch(from.context, caller_, true);
  }
  TakeNext();
  Thread& to = room_.threads[current_];
  if (&to != &from) Switch(from.context, to.context, from.done);
}

// NOLINTNEXTLINE(readability-convert-member-functions-to-static): the sanitizer's case is none
void Block::Switch(Context& from, const Context& to, [[maybe_unused]] bool for_ever) {
#ifdef LOCKSTEP_ASAN
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(for_ever ? nullptr : &fake, to.bottom, to.size);
  lockstep_switch(&from.top, to.top);
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(fake, &bottom, &size);
#else
  lockstep_switch(&from.top, to.top);
#endif
}

void Block::Begin() {
#ifdef LOCKSTEP_ASAN
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  // The first to begin comes from Run(), whose stack nobody else knows.
  if (block->caller_.bottom == nullptr) {
    block->caller_.bottom = bottom;
    block->caller_.size = size;
  }
#endif
  block->kernel_.run(block->arguments_, block->kernel_.kernel);
  block->room_.threads[block->current_].done = true;
  --block->left_;
  block->Leave();
  std::abort();
}

void Block::Stop() {
  Switch(room_.threads[current_].context, caller_, true);
  std::abort();
}

std::string Block::Waiting() const {
  std::map<std::string, std::vector<unsigned>> where;
  unsigned done = 0;
  for (unsigned i = 0; i < room_.threads.size(); ++i) {
    if (room_.threads[i].done) {
      ++done;
    } else {
      where[Describe(room_.threads[i].operation, SiteOf(room_.threads[i].waits_at))].push_back(i);
    }
  }
  std::string text;
  for (const auto& [what, who] : where) {
    text += std::to_string(who.size()) + " in " + what + ", the first of them " +
            std::to_string(who.front()) + "; ";
  }
  return text + std::to_string(done) + " have returned";
}

bool Block::Skips(const Where& where) {
  if (options_.sites == nullptr && options_.without == nullptr) return false;
  const Site site = SiteOf(where);
  if (options_.sites != nullptr &&
      std::find(options_.sites->begin(), options_.sites->end(), site) == options_.sites->end())
    options_.sites->push_back(site);
  return options_.without != nullptr && *options_.without == site;
}

void Block::WaitForAll(const Where& where) {
  if (Skips(where)) return;
  Note("SyncBlock", where);
  room_.waiting.push_back(current_);
  if (room_.waiting.size() == room_.threads.size()) {
    for (const unsigned thread : room_.waiting) room_.ready.Add(thread);
    room_.waiting.clear();
  }
  Leave();
}

Exchange& Block::NextExchange() {
  Warp& warp = room_.warps[current_ / kLanes];
  return warp.exchanges[warp.turns[lane()] % 2];
}

void Block::WaitForWarp(const char* operation, const Where& where) {
  Warp& warp = room_.warps[current_ / kLanes];
  Note(operation, where);
  if (!warp.waiting.empty()) {
    const Thread& other = room_.threads[warp.waiting.front()];
    if (!Same(other.waits_at, where)) {
      failure_ = "thread " + std::to_string(current_) + " is in " +
                 Describe(operation, SiteOf(where)) + " while thread " +
                 std::to_string(warp.waiting.front()) + " of its warp is in " +
                 Describe(other.operation, SiteOf(other.waits_at));
      Stop();
    }
  }
  ++warp.turns[lane()];
  warp.waiting.push_back(current_);
  if (warp.waiting.size() == kLanes) {
    for (const unsigned thread : warp.waiting) room_.ready.Add(thread);
    warp.waiting.clear();
  }
  Leave();
}

void Block::Add(const Copy& copy) {
  if (options_.seed % 2 == 1) return Land(copy);
  room_.threads[current_].copies.push_back(copy);
}

void Block::Commit() {
  Thread& thread = room_.threads[current_];
  thread.group_ends.push_back(thread.copies.size());
}

void Block::WaitForGroups(int groups, const Where& where) {
  if (Skips(where)) return;
  Thread& thread = room_.threads[current_];
  const auto kept = static_cast<size_t>(groups);
  if (thread.group_ends.size() <= kept) return;
  const auto landed = static_cast<std::ptrdiff_t>(thread.group_ends.size() - kept);
  const size_t end = thread.group_ends[static_cast<size_t>(landed) - 1];
  const auto first_left = thread.copies.begin() + static_cast<std::ptrdiff_t>(end);
  std::for_each(thread.copies.begin(), first_left, Land);
  thread.copies.erase(thread.copies.begin(), first_left);
  thread.group_ends.erase(thread.group_ends.begin(), thread.group_ends.begin() + landed);
  for (size_t& group_end : thread.group_ends) group_end -= end;
}

}  // namespace

void Fail(const char* what) {
  block->failure() = what;
  block->Stop();
}

const HostKernel* Find(std::string_view name) {
  const auto found = Kernels().find(name);
  return found == Kernels().end() ? nullptr : &found->second;
}

std::string Run(const HostKernel& kernel, const void* arguments, const LaunchShape& shape,
                const Options& options) {
  if (shape.threads != kernel.threads || shape.blocks_x == 0 || shape.blocks_y == 0 ||
      shape.blocks_y > 65535 || shape.shared_bytes > 48 * 1024 || shape.threads > 1024)
    return "a launch of " + std::to_string(shape.blocks_x) + " x " +
           std::to_string(shape.blocks_y) + " blocks of " + std::to_string(shape.threads) +
           " threads and " + std::to_string(shape.shared_bytes) + " bytes: " + kernel.name +
           " has " + std::to_string(kernel.threads) + " threads, and a GPU at most 48 KiB";
  thread_local Room room;
  // Of the exact size, so that AddressSanitizer sees who goes beyond.
  const std::unique_ptr<char, decltype(&std::free)> shared(
      static_cast<char*>(
          std::aligned_alloc(16, std::max(16U, (shape.shared_bytes + 15) / 16 * 16))),
      std::free);
  std::vector<unsigned> order(size_t{shape.blocks_x} * shape.blocks_y);
  std::iota(order.begin(), order.end(), 0U);
  if (options.seed == 1) std::reverse(order.begin(), order.end());
  if (options.seed > 1) std::shuffle(order.begin(), order.end(), std::mt19937(options.seed));
  for (const unsigned i : order) {
    const unsigned x = i % shape.blocks_x;
    const unsigned y = i / shape.blocks_x;
    const std::string wrong =
        Block(kernel, arguments, shape, options, x, y, room, shared.get()).Run();
    if (wrong.empty()) continue;
    room.stacks.reset();
    return std::string(kernel.name) + ", block " + std::to_string(x) + ", " + std::to_string(y) +
           ": " + wrong;
  }
  return {};
}

}  // namespace lockstep::emulator

namespace lockstep::trainer::gpu {
namespace {

using emulator::block;

float Low(uint32_t word) { return std::bit_cast<float>(word << 16U); }
float High(uint32_t word) { return std::bit_cast<float>(word & 0xffff0000U); }

void CheckAligned(const void* pointer, const char* operation) {
  if (reinterpret_cast<uintptr_t>(pointer) % 16 == 0) return;
  block->failure() = std::string(operation) + " of an address that is not a multiple of 16";
  block->Stop();
}

void Load(uint32_t (&to)[4], const void* row, bool transposed, const char* operation,
          const Where& where) {
  CheckAligned(row, operation);
  emulator::Exchange& exchange = block->NextExchange();
  const unsigned lane = block->lane();
  exchange.words[lane] = reinterpret_cast<uintptr_t>(row);
  block->WaitForWarp(operation, where);
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    uint32_t halves[2];
    for (unsigned i = 0; i < 2; ++i) {
      unsigned r = lane / 4;
      unsigned c = lane % 4 * 2 + i;
      if (transposed) std::swap(r, c);
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      const auto* from = reinterpret_cast<const uint16_t*>(exchange.words[matrix * 8 + r]);
      halves[i] = from[c];
    }
    to[matrix] = halves[0] | halves[1] << 16U;
  }
}

}  // namespace

bool RegisterKernel(const HostKernel& kernel) {
  return emulator::Kernels().emplace(kernel.name, kernel).second;
}

unsigned ThreadX() { return block->thread(); }
unsigned BlockX() { return block->x(); }
unsigned BlockY() { return block->y(); }
void* Shared() { return block->shared(); }
void SyncBlock(Where where) { block->WaitForAll(where); }

uint32_t ShuffleXor(uint32_t value, unsigned mask, Where where) {
  emulator::Exchange& exchange = block->NextExchange();
  exchange.words[block->lane()] = value;
  block->WaitForWarp("ShuffleXor", where);
  return static_cast<uint32_t>(exchange.words[block->lane() ^ mask]);
}

float Exp2(float x) { return std::exp2(x); }
float Log2(float x) { return std::log2(x); }
float Sqrt(float x) { return std::sqrt(x); }
double Sqrt(double x) { return std::sqrt(x); }
float Fma(float a, float b, float c) { return std::fma(a, b, c); }
float Max(float a, float b) { return std::fmax(a, b); }

uint32_t PackBf16(float low, float high) {
  return ToBf16(low).bits | static_cast<uint32_t>(ToBf16(high).bits) << 16U;
}

// PTX ISA, "Matrix Fragments for mma.m16n8k16": with g = lane / 4 and t = lane % 4, a[0..3] hold
// rows g, g + 8, g, g + 8 and columns 2 t, 2 t, 2 t + 8, 2 t + 8 and the next; b[0..1] rows 2 t and
// 2 t + 8 and the next, of column g; d rows g, g, g + 8, g + 8, of columns 2 t, 2 t + 1 in turn.
void Multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Where where) {
  emulator::Exchange& exchange = block->NextExchange();
  const unsigned group = block->lane() / 4;
  const unsigned two = block->lane() % 4 * 2;
  for (unsigned i = 0; i < 4; ++i) {
    exchange.a[group + i % 2 * 8][two + i / 2 * 8] = Low(a[i]);
    exchange.a[group + i % 2 * 8][two + i / 2 * 8 + 1] = High(a[i]);
  }
  for (unsigned i = 0; i < 2; ++i) {
    exchange.b[two + i * 8][group] = Low(b[i]);
    exchange.b[two + i * 8 + 1][group] = High(b[i]);
  }
  block->WaitForWarp("Multiply", where);
  for (unsigned i = 0; i < 4; ++i) {
    float sum = 0;
    for (unsigned k = 0; k < 16; ++k)
      sum += exchange.a[group + i / 2 * 8][k] * exchange.b[k][two + i % 2];
    d[i] += sum;
  }
}

void LoadMatrices(uint32_t (&to)[4], const void* row, Where where) {
  Load(to, row, false, "LoadMatrices", where);
}
void LoadTransposed(uint32_t (&to)[4], const void* row, Where where) {
  Load(to, row, true, "LoadTransposed", where);
}

void CopyAsync(void* to, const void* from, bool valid) {
  CheckAligned(to, "CopyAsync");
  CheckAligned(from, "CopyAsync");
  block->Add({to, from, valid});
}
void CommitCopies() { block->Commit(); }
void WaitForGroups(int groups, Where where) { block->WaitForGroups(groups, where); }

}  // namespace lockstep::trainer::gpu

// The kernels, in the file of what they call: so the compiler can inline it.
#include "worker/trainer/cuda/device/device.cu"
