#include "worker/trainer/collectives/group/communicator.h"

#include <algorithm>
#include <optional>

#include "base/thread.h"
#include "worker/trainer/collectives/store/no_sigpipe.h"

namespace lockstep::collectives {
namespace {

// How long the issuing thread looks at the oldest operation before it looks for new ones.
constexpr Duration kGlance = microseconds(200);

uint64_t BytesOf(const Operation& operation) {
  const uint64_t in = operation.in.count * SizeOf(operation.in.type);
  const uint64_t out = operation.out.count * SizeOf(operation.out.type);
  return std::max(in, out);
}

bool IsIn(const RankGroup& group, int rank, int world) {
  if (group.stride < 1 || group.size < 1 || group.first < 0) return false;
  if (group.RankOf(group.size - 1) >= world || rank < group.first) return false;
  const int from = rank - group.first;
  return from % group.stride == 0 && from / group.stride < group.size;
}

EvidenceHeader HeaderOf(const Options& options, const Transport& transport) {
  return {.rank = options.rank,
          .world = options.world,
          .identity = options.identity,
          .backend = transport.Describe(),
          .reason = {},
          .blamed = -1};
}

Watchdog::Options WatchdogOptions(const Options& options, const EvidenceHeader& header) {
  return {.header = header,
          .evidence_dir = options.evidence_dir,
          .operation_timeout = options.operation_timeout,
          .on_end = options.on_end,
          .on_failure = options.on_failure};
}

}  // namespace

QueueCommunicator::QueueCommunicator(const Options& options, Parts parts)
    : header_(HeaderOf(options, *parts.transport)),
      rank_(options.rank),
      world_(options.world),
      operation_timeout_(options.operation_timeout),
      parts_(std::move(parts)),
      watchdog_(WatchdogOptions(options, header_), &recorder_, parts_.transport.get(),
                parts_.store.get()),
      thread_(StartThreadOrThrow([this] { Run(); })) {}

QueueCommunicator::~QueueCommunicator() {
  bool idle = false;
  {
    const MutexLock lock(&mutex_);
    idle = queue_.empty() && idle_;
  }
  if (!idle) Abort("the Communicator is destroyed");
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Work QueueCommunicator::AllReduceAsync(Span buffer, Reduction op, std::string_view tag,
                                       const CudaEvent* after) {
  return Enqueue({.kind = OperationKind::kAllReduce,
                  .in = buffer,
                  .out = buffer,
                  .reduction = op,
                  .after = after},
                 tag);
}

Work QueueCommunicator::AllReduceWithin(const RankGroup& group, Span buffer, Reduction op,
                                        std::string_view tag, const CudaEvent* after) {
  return Enqueue({.kind = OperationKind::kAllReduce,
                  .in = buffer,
                  .out = buffer,
                  .reduction = op,
                  .group = group,
                  .after = after},
                 tag);
}

Status QueueCommunicator::Broadcast(Span buffer, int root, std::string_view tag) {
  return Enqueue({.kind = OperationKind::kBroadcast, .in = buffer, .out = buffer, .peer = root},
                 tag)
      .Wait();
}

Status QueueCommunicator::ReduceScatter(ConstSpan in, Span out, Reduction op,
                                        std::string_view tag) {
  return Enqueue({.kind = OperationKind::kReduceScatter, .in = in, .out = out, .reduction = op},
                 tag)
      .Wait();
}

Status QueueCommunicator::AllGather(ConstSpan in, Span out, std::string_view tag) {
  return AllGatherAsync(in, out, tag, nullptr).Wait();
}

Work QueueCommunicator::AllGatherAsync(ConstSpan in, Span out, std::string_view tag,
                                       const CudaEvent* after) {
  return Enqueue({.kind = OperationKind::kAllGather, .in = in, .out = out, .after = after}, tag);
}

Status QueueCommunicator::Send(ConstSpan buffer, int peer, std::string_view tag) {
  return Enqueue({.kind = OperationKind::kSend, .in = buffer, .out = {}, .peer = peer}, tag).Wait();
}

Status QueueCommunicator::Post(ConstSpan buffer, int peer, int most, std::string_view tag) {
  return Enqueue({.kind = OperationKind::kSend,
                  .in = buffer,
                  .out = {},
                  .peer = peer,
                  .posts = std::max(most, 1)},
                 tag)
      .Wait();
}

Status QueueCommunicator::Receive(Span buffer, int peer, std::string_view tag) {
  return Enqueue({.kind = OperationKind::kReceive, .in = {}, .out = buffer, .peer = peer}, tag)
      .Wait();
}

Work QueueCommunicator::ExchangeAsync(ConstSpan out, Span in, int peer, std::string_view tag,
                                      const CudaEvent* after) {
  OperationKind kind = OperationKind::kExchange;
  if (in.count == 0) kind = OperationKind::kSend;
  if (out.count == 0) kind = OperationKind::kReceive;
  return Enqueue({.kind = kind, .in = out, .out = in, .peer = peer, .after = after}, tag);
}

Status QueueCommunicator::Barrier(std::string_view tag) {
  return Enqueue({.kind = OperationKind::kBarrier, .in = {}, .out = {}}, tag).Wait();
}

void QueueCommunicator::Abort(std::string_view reason) { watchdog_.Abort(std::string(reason)); }

Result<std::string> QueueCommunicator::Record(const std::string& dir) const {
  EvidenceHeader header = header_;
  header.reason = "its agent asked";
  const Status wrote = recorder_.Write(dir, header);
  if (!wrote.ok()) return wrote.error();
  return recorder_.Standing();
}

Status QueueCommunicator::Finish() {
  {
    const MutexLock lock(&mutex_);
    while (!queue_.empty() || !idle_) changed_.wait(mutex_);
  }
  if (parts_.store) {
    parts_.store->Bye();
    if (parts_.server) parts_.server->Leave(BootTime() + operation_timeout_);
  }
  if (const std::optional<Error> failure = watchdog_.failure()) return *failure;
  return {};
}

Work QueueCommunicator::Enqueue(Operation operation, std::string_view tag) {
  if (Status checked = Check(operation); !checked.ok()) return Failed(checked.error());
  if (const std::optional<Error> failure = watchdog_.failure()) return Failed(*failure);
  auto state = std::make_shared<Work::State>();
  const MutexLock lock(&mutex_);
  operation.number = NextNumber(operation);
  const uint64_t ticket = recorder_.Enqueued(operation, BytesOf(operation), tag, BootTime());
  queue_.push_back({operation, ticket, state});
  changed_.notify_all();
  return Work(std::move(state));
}

Status QueueCommunicator::Check(const Operation& operation) const {
  const OperationKind kind = operation.kind;
  const auto world = static_cast<size_t>(world_);
  const bool reduces = kind == OperationKind::kAllReduce || kind == OperationKind::kReduceScatter;
  if (reduces && !IsReduced(operation.in.type)) {
    return Error::Invalid(
        "bytes and bfloat16 are only moved, not reduced: reduce float32 or int64");
  }
  if (operation.after != nullptr && memory() == Memory::kHost) {
    return Error::Invalid("only operations in device memory can begin after an event");
  }
  if (memory() == Memory::kDevice && operation.posts > 0) {
    return Error::Invalid("only Gloo posts messages, in host memory");
  }
  if (memory() == Memory::kHost && kind == OperationKind::kExchange) {
    return Error::Invalid("in host memory, post and receive: only device memory is exchanged");
  }
  if (operation.group && !IsIn(*operation.group, rank_, world_)) {
    return Error::Invalid("rank " + std::to_string(rank_) + " is not in the group that it names");
  }
  const bool has_peer = !IsCollective(kind) || kind == OperationKind::kBroadcast;
  if (has_peer && (operation.peer < 0 || operation.peer >= world_)) {
    return Error::Invalid("rank " + std::to_string(operation.peer) + " is not in a world of " +
                          std::to_string(world_));
  }
  if (!IsCollective(kind) && operation.peer == rank_) {
    return Error::Invalid("a rank sends nothing to itself");
  }
  if (kind == OperationKind::kReduceScatter && operation.in.count != operation.out.count * world) {
    return Error::Invalid("reduce-scatter: `in` must have world() times the elements of `out`");
  }
  if (kind == OperationKind::kAllGather && operation.out.count != operation.in.count * world) {
    return Error::Invalid("all-gather: `out` must have world() times the elements of `in`");
  }
  if (IsCollective(kind) && operation.in.type != operation.out.type) {
    return Error::Invalid("`in` and `out` must have the same type");
  }
  return {};
}

uint64_t QueueCommunicator::NextNumber(const Operation& operation) {
  if (IsCollective(operation.kind)) return ++collectives_;
  return ++pairs_[{operation.kind, operation.peer}];
}

Work QueueCommunicator::Failed(Error error) {
  auto state = std::make_shared<Work::State>();
  state->Complete(std::move(error));
  return Work(std::move(state));
}

void QueueCommunicator::Run() {
  const NoSigpipe none;
  std::optional<Item> item;
  while (Next(&item)) {
    Status done;
    if (item) {
      done = Begin(*item);
    } else if (watchdog_.failure()) {
      done = *watchdog_.failure();
    } else {
      bool more = false;
      {
        const MutexLock lock(&mutex_);
        more = !queue_.empty();
      }
      done = End(more ? Duration{} : kGlance);
    }
    if (!done.ok()) FailAll(watchdog_.TransportFailed(done.error()));
  }
}

bool QueueCommunicator::Next(std::optional<Item>* item) {
  const MutexLock lock(&mutex_);
  item->reset();
  if (begun_.empty() && queue_.empty()) {
    idle_ = true;
    changed_.notify_all();
    while (queue_.empty() && !stop_) changed_.wait(mutex_);
  }
  if (stop_ && queue_.empty() && begun_.empty()) return false;
  idle_ = false;
  if (queue_.empty() || begun_.size() >= kMostBegun) return true;
  *item = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

Status QueueCommunicator::Begin(Item& item) {
  const Time now = BootTime();
  if (begun_.empty()) recorder_.Started(item.ticket, now);
  item.operation.deadline = now + operation_timeout_;
  begun_.push_back(item);
  if (const std::optional<Error> failure = watchdog_.failure()) return *failure;
  if (Status started = parts_.transport->Start(item.operation); !started.ok()) return started;
  item.state->Begun(parts_.transport->LastEnd());
  return End(Duration{});
}

Status QueueCommunicator::End(Duration patience) {
  Result<bool> finished = parts_.transport->Finish(patience);
  if (!finished.ok()) return finished.error();
  const Time now = BootTime();
  if (!*finished) {
    // Its time has not begun: what this rank itself has yet to do is no peer's delay.
    if (!begun_.empty() && !parts_.transport->IsOldestsTurn()) {
      recorder_.Started(begun_.front().ticket, now);
    }
    return {};
  }
  const Item item = std::move(begun_.front());
  begun_.pop_front();
  recorder_.Finished(item.ticket, now);
  if (!begun_.empty()) recorder_.Started(begun_.front().ticket, now);
  item.state->Complete({});
  return {};
}

void QueueCommunicator::FailAll(const Error& error) {
  std::deque<Item> failed = std::exchange(begun_, {});
  {
    const MutexLock lock(&mutex_);
    std::move(queue_.begin(), queue_.end(), std::back_inserter(failed));
    queue_.clear();
  }
  for (const Item& item : failed) item.state->Complete(error);
}

}  // namespace lockstep::collectives
