#include "worker/trainer/collectives/nccl/nccl_transport.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/backoff.h"

namespace lockstep::collectives {
namespace {

nccl::Type TypeOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return nccl::Type::kFloat32;
    case DataType::kInt64:
      return nccl::Type::kInt64;
    case DataType::kBFloat16:
      return nccl::Type::kBfloat16;
    case DataType::kByte:
      break;
  }
  return nccl::Type::kUint8;
}

nccl::Op OpOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::kMin:
      return nccl::Op::kMin;
    case Reduction::kMax:
      return nccl::Op::kMax;
    case Reduction::kSum:
      break;
  }
  return nccl::Op::kSum;
}

const char* NameOf(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllReduce:
      return "ncclAllReduce";
    case OperationKind::kBroadcast:
      return "ncclBroadcast";
    case OperationKind::kReduceScatter:
      return "ncclReduceScatter";
    case OperationKind::kAllGather:
      return "ncclAllGather";
    case OperationKind::kSend:
      return "ncclSend";
    case OperationKind::kReceive:
      return "ncclRecv";
    case OperationKind::kExchange:
      return "ncclSend and ncclRecv";
    case OperationKind::kBarrier:
      break;
  }
  return "ncclAllReduce of a barrier";
}

std::string Name(const Operation& operation) {
  return std::string(NameOf(operation.kind)) + " (operation " + std::to_string(operation.number) +
         ")";
}

// Else a communicator's Start waits for what its Finish could have told.
static_assert(NcclLimits{}.in_flight >= kMostBegun);

bool Reduces(OperationKind kind) {
  return kind == OperationKind::kAllReduce || kind == OperationKind::kReduceScatter;
}

// In one group: two ranks that both send first would wait for each other.
nccl::Code Exchange(const Operation& operation, const nccl::Api& api, nccl::Comm comm,
                    cuda::Stream stream) {
  const ConstSpan& in = operation.in;
  const Span& out = operation.out;
  if (const nccl::Code begun = api.group_start(); begun != nccl::Code::kSuccess) return begun;
  const nccl::Code sent =
      api.send(in.data, in.count, TypeOf(in.type), operation.peer, comm, stream);
  const nccl::Code received =
      api.receive(out.data, out.count, TypeOf(out.type), operation.peer, comm, stream);
  const nccl::Code ended = api.group_end();
  for (const nccl::Code code : {sent, received}) {
    if (code != nccl::Code::kSuccess && code != nccl::Code::kInProgress) return code;
  }
  return ended;
}

}  // namespace

Result<NcclTransport::Parts> NcclTransport::Prepare(std::shared_ptr<const CudaDevice> device,
                                                    const NcclLimits& limits) {
  Result<CudaStream> stream = CudaStream::Create(device, StreamPriority::kHighest);
  if (!stream.ok()) return stream.error();
  std::vector<Marks> marks;
  for (size_t i = 0; i < limits.in_flight; ++i) {
    Result<CudaEvent> begins = CudaEvent::Create(device);
    if (!begins.ok()) return begins.error();
    Result<CudaEvent> ends = CudaEvent::Create(device);
    if (!ends.ok()) return ends.error();
    marks.push_back({std::move(*begins), std::move(*ends)});
  }
  const std::array<int64_t, 2> one{1, 0};
  Result<DeviceMemory> barrier = DeviceMemory::Allocate(device, sizeof(one));
  if (!barrier.ok()) return barrier.error();
  if (Status copied = barrier->CopyFrom(one.data(), sizeof(one)); !copied.ok())
    return copied.error();
  return Parts{std::move(device), std::move(*stream), std::move(marks), std::move(*barrier),
               std::nullopt};
}

NcclTransport::NcclTransport(Parts parts, std::shared_ptr<const NcclLibrary> library,
                             const NcclRanks& ranks, const NcclLimits& limits)
    : parts_(std::move(parts)),
      ranks_(ranks),
      comm_(std::move(library), parts_.device, limits.end) {
  for (size_t i = 0; i < parts_.marks.size(); ++i) free_marks_.push_back(i);
}

NcclTransport::~NcclTransport() {
  // After a failure the communicator cannot be finalized, only aborted.
  if (failure_.has_value() || !pending_.empty()) comm_.Abort();
}

std::string NcclTransport::Describe() const {
  return "NCCL " + NcclVersionText(comm_.library().version()) + " on GPU " +
         std::to_string(parts_.device->index()) + " (" + parts_.device->name() + ")" +
         ToString(network_);
}

Status NcclTransport::Init(const nccl::UniqueId& id, Time deadline) {
  if (Status made = comm_.Init(ranks_.world, id, ranks_.rank, deadline); !made.ok()) return made;
  return WarmUp(deadline);
}

Status NcclTransport::WarmUp(Time deadline) {
  if (parts_.tree) {
    const Status summed =
        parts_.tree->WarmUp(ranks_, CallOf("NCCL's first sends", deadline), parts_.stream);
    if (!summed.ok()) return summed;
  }
  Operation barrier;
  barrier.deadline = deadline;
  if (Status started = Start(barrier); !started.ok()) return started;
  for (;;) {
    Result<bool> done = Finish(kLongestPause);
    if (!done.ok()) return done.error();
    if (*done) break;
    // Its own begins when the tree's are done.
    if (BootTime() > deadline) {
      return Keep(Error::Timeout(
          "NCCL's first operations did not finish by their deadline: a peer is late or gone"));
    }
  }
  std::array<int64_t, 2> sums{};
  if (Status copied = parts_.barrier.CopyTo(sums.data(), sizeof(sums)); !copied.ok()) return copied;
  if (sums[1] == ranks_.world) return {};
  return Error::Internal("NCCL adds " + std::to_string(ranks_.world) + " ones to " +
                         std::to_string(sums[1]) + ": its installation or a GPU is broken");
}

Status NcclTransport::Keep(Status status) {
  if (status.ok() || failure_.has_value()) return status;
  failure_ = status.error();
  // NCCL says "unhandled cuda error" of a GPU that is lost; the driver knows better.
  const Result<bool> asked = parts_.marks.front().begins.Done();
  if (!asked.ok() && asked.error().kind == ErrorKind::kBroken) failure_ = asked.error();
  return *failure_;
}

Status NcclTransport::Start(const Operation& operation) {
  if (failure_.has_value()) return *failure_;
  return Keep(Begin(operation));
}

Result<bool> NcclTransport::Finish(Duration patience) {
  if (failure_.has_value()) return *failure_;
  if (done_unasked_ > 0) {
    --done_unasked_;
    return true;
  }
  Result<bool> done = Poll(patience);
  if (!done.ok()) return Keep(done.error()).error();
  return done;
}

Status NcclTransport::Validate(const Operation& operation) const {
  const auto world = static_cast<size_t>(ranks_.world);
  if (Reduces(operation.kind) && !IsReduced(operation.out.type))
    return Error::Invalid(Name(operation) + ": bytes and bfloat16 are only moved, not reduced");
  if (operation.group && !IsTreeSum(operation))
    return Error::Invalid(Name(operation) + ": groups of ranks add up floats as a tree alone");
  if (operation.kind == OperationKind::kReduceScatter &&
      operation.in.count != operation.out.count * world)
    return Error::Invalid(Name(operation) + ": its input must hold world() parts of its output");
  if (operation.kind == OperationKind::kAllGather &&
      operation.out.count != operation.in.count * world)
    return Error::Invalid(Name(operation) + ": its output must hold world() parts of its input");
  return {};
}

Status NcclTransport::Begin(const Operation& operation) {
  if (Status valid = Validate(operation); !valid.ok()) return valid;
  const Duration allowed = operation.deadline - BootTime();
  while (free_marks_.empty()) {
    if (Status drained = Drain(); !drained.ok()) return drained;
  }
  const size_t marks = free_marks_.back();
  const Time now = BootTime();
  if (operation.after != nullptr) {
    if (Status waits = parts_.stream.WaitFor(*operation.after); !waits.ok()) return waits;
  }
  Status begins = parts_.marks[marks].begins.Record(parts_.stream);
  if (!begins.ok()) return begins;
  if (Status launched = Launch(operation, now + allowed); !launched.ok()) return launched;
  if (Status ends = parts_.marks[marks].ends.Record(parts_.stream); !ends.ok()) return ends;
  free_marks_.pop_back();
  pending_.push_back({marks, operation, allowed, now, std::nullopt});
  return {};
}

TreeSum::Call NcclTransport::CallOf(std::string what, Time deadline) {
  return [this, what = std::move(what),
          deadline](const std::function<nccl::Code(const nccl::Api&, nccl::Comm)>& launch) {
    return comm_.Call(what, deadline, launch);
  };
}

bool NcclTransport::IsTreeSum(const Operation& operation) const {
  return parts_.tree && Reduces(operation.kind) && operation.reduction == Reduction::kSum &&
         operation.out.type == DataType::kFloat32;
}

Status NcclTransport::Launch(const Operation& operation, Time deadline) {
  const TreeSum::Call call = CallOf(Name(operation), deadline);
  if (IsTreeSum(operation)) {
    auto* const out = static_cast<float*>(operation.out.data);
    if (operation.kind == OperationKind::kAllReduce) {
      const NcclRanks ranks = operation.group ? ranks_.Of(*operation.group) : ranks_;
      return parts_.tree->AllReduce(ranks, call, parts_.stream, out, operation.out.count);
    }
    return parts_.tree->ReduceScatter(ranks_, call, parts_.stream,
                                      static_cast<const float*>(operation.in.data), out,
                                      operation.out.count);
  }
  return call(
      [&](const nccl::Api& api, nccl::Comm comm) { return LaunchNccl(operation, api, comm); });
}

nccl::Code NcclTransport::LaunchNccl(const Operation& operation, const nccl::Api& api,
                                     nccl::Comm comm) {
  const ConstSpan& in = operation.in;
  const Span& out = operation.out;
  const nccl::Op op = OpOf(operation.reduction);
  cuda::Stream stream = parts_.stream.get();
  switch (operation.kind) {
    case OperationKind::kAllReduce:
      return api.all_reduce(in.data, out.data, out.count, TypeOf(out.type), op, comm, stream);
    case OperationKind::kBroadcast:
      return api.broadcast(out.data, out.data, out.count, TypeOf(out.type), operation.peer, comm,
                           stream);
    case OperationKind::kReduceScatter:
      return api.reduce_scatter(in.data, out.data, out.count, TypeOf(out.type), op, comm, stream);
    case OperationKind::kAllGather:
      return api.all_gather(in.data, out.data, in.count, TypeOf(in.type), comm, stream);
    case OperationKind::kSend:
      return api.send(in.data, in.count, TypeOf(in.type), operation.peer, comm, stream);
    case OperationKind::kReceive:
      return api.receive(out.data, out.count, TypeOf(out.type), operation.peer, comm, stream);
    case OperationKind::kExchange:
      return Exchange(operation, api, comm, stream);
    case OperationKind::kBarrier:
      break;
  }
  auto* one = static_cast<int64_t*>(parts_.barrier.data());
  return api.all_reduce(one, one + 1, 1, nccl::Type::kInt64, nccl::Op::kSum, comm, stream);
}

Status NcclTransport::Drain() {
  const size_t before = pending_.size();
  while (pending_.size() == before) {
    Result<bool> done = Poll(kLongestPause);
    if (!done.ok()) return done.error();
  }
  ++done_unasked_;
  return {};
}

const CudaEvent* NcclTransport::LastEnd() const {
  return pending_.empty() ? nullptr : &parts_.marks[pending_.back().marks].ends;
}

bool NcclTransport::IsOldestsTurn() const {
  return pending_.empty() || pending_.front().begun.has_value();
}

Status NcclTransport::LookAtTurn(Pending& oldest, Time now) const {
  if (oldest.begun) return {};
  Result<bool> begins = parts_.marks[oldest.marks].begins.Done();
  if (!begins.ok()) return begins.error();
  if (*begins) oldest.begun = now;
  return {};
}

Result<bool> NcclTransport::Poll(Duration patience) {
  const Time until = BootTime() + std::min<Duration>(patience, hours(1));
  DoublingPause pause(kFirstPause, kLongestPause);
  while (!pending_.empty()) {
    Pending& oldest = pending_.front();
    const Marks& marks = parts_.marks[oldest.marks];
    Result<bool> done = marks.ends.Done();
    if (!done.ok()) return done.error();
    // Checked before the event: an abort and some errors end the kernels as well.
    if (Status checked = comm_.Check(); !checked.ok()) return checked.error();
    if (*done) {
      free_marks_.push_back(oldest.marks);
      pending_.pop_front();
      return true;
    }
    const Time now = BootTime();
    if (Status looked = LookAtTurn(oldest, now); !looked.ok()) return looked.error();
    if (oldest.begun && now - *oldest.begun > oldest.allowed) {
      return Error::Timeout(
          Name(oldest.operation) +
          " did not finish by its deadline: a rank is missing, or called another operation");
    }
    if (now >= until) return false;
    if (now - oldest.launched < kSpin) continue;
    comm_.WaitForAbort(std::min(pause.Take(), until - now));
  }
  return true;
}

}  // namespace lockstep::collectives
