#include "worker/trainer/collectives/nccl/host_view.h"

#include <algorithm>
#include <cstddef>

#include "worker/trainer/collectives/work.h"

namespace lockstep::collectives {

Result<std::unique_ptr<HostView>> HostView::Create(const std::shared_ptr<const CudaDevice>& device,
                                                   Communicator& all, size_t bytes) {
  Result<DeviceMemory> memory = DeviceMemory::Allocate(device, bytes);
  if (!memory.ok()) return memory.error();
  return std::unique_ptr<HostView>(new HostView(all, std::move(*memory)));
}

Status HostView::Pieces(size_t count, DataType type, size_t width,
                        const std::function<Status(size_t first, size_t count)>& work) const {
  const size_t most = memory_.size() / SizeOf(type) / width;
  if (most == 0) {
    return Error::TooLarge("a world of " + std::to_string(world()) +
                           " does not fit the buffer of " + std::to_string(memory_.size()) +
                           " bytes");
  }
  // At least once: all ranks must make the same calls, and an empty one is theirs to judge.
  size_t first = 0;
  do {
    const size_t piece = std::min(most, count - first);
    if (Status done = work(first, piece); !done.ok()) return done;
    first += piece;
  } while (first < count);
  return {};
}

Span HostView::OnDevice(size_t first, size_t count, DataType type) const {
  return {static_cast<std::byte*>(memory_.data()) + first * SizeOf(type), count, type};
}

Status HostView::Upload(ConstSpan host, size_t from, size_t count, size_t to) {
  const size_t size = SizeOf(host.type);
  return memory_.CopyFrom(static_cast<const std::byte*>(host.data) + from * size, count * size,
                          to * size);
}

Status HostView::Download(Span host, size_t to, size_t count, size_t from) const {
  const size_t size = SizeOf(host.type);
  return memory_.CopyTo(static_cast<std::byte*>(host.data) + to * size, count * size, from * size);
}

Work HostView::AllReduceAsync(Span buffer, Reduction op, std::string_view tag,
                              const CudaEvent* after) {
  auto state = std::make_shared<Work::State>();
  if (after != nullptr) {
    state->Complete(Error::Invalid("an event belongs to device memory"));
    return Work(std::move(state));
  }
  state->Complete(Pieces(buffer.count, buffer.type, 1, [&](size_t first, size_t count) -> Status {
    if (Status up = Upload(buffer, first, count, 0); !up.ok()) return up;
    Status done = all_.AllReduce(OnDevice(0, count, buffer.type), op, tag);
    return done.ok() ? Download(buffer, first, count, 0) : done;
  }));
  return Work(std::move(state));
}

Status HostView::Broadcast(Span buffer, int root, std::string_view tag) {
  return Pieces(buffer.count, buffer.type, 1, [&](size_t first, size_t count) -> Status {
    if (rank() == root) {
      if (Status up = Upload(buffer, first, count, 0); !up.ok()) return up;
    }
    Status done = all_.Broadcast(OnDevice(0, count, buffer.type), root, tag);
    return done.ok() ? Download(buffer, first, count, 0) : done;
  });
}

Status HostView::ReduceScatter(ConstSpan in, Span out, Reduction op, std::string_view tag) {
  const auto parts = static_cast<size_t>(world());
  return Pieces(out.count, in.type, parts + 1, [&](size_t first, size_t count) -> Status {
    for (size_t part = 0; part < parts; ++part) {
      Status up = Upload(in, part * out.count + first, count, part * count);
      if (!up.ok()) return up;
    }
    Status done = all_.ReduceScatter(OnDevice(0, parts * count, in.type),
                                     OnDevice(parts * count, count, in.type), op, tag);
    return done.ok() ? Download(out, first, count, parts * count) : done;
  });
}

Status HostView::AllGather(ConstSpan in, Span out, std::string_view tag) {
  const auto parts = static_cast<size_t>(world());
  return Pieces(in.count, in.type, parts + 1, [&](size_t first, size_t count) -> Status {
    if (Status up = Upload(in, first, count, parts * count); !up.ok()) return up;
    Status done = all_.AllGather(OnDevice(parts * count, count, in.type),
                                 OnDevice(0, parts * count, in.type), tag);
    for (size_t part = 0; done.ok() && part < parts; ++part) {
      done = Download(out, part * in.count + first, count, part * count);
    }
    return done;
  });
}

Status HostView::Send(ConstSpan buffer, int peer, std::string_view tag) {
  return Pieces(buffer.count, buffer.type, 1, [&](size_t first, size_t count) -> Status {
    if (Status up = Upload(buffer, first, count, 0); !up.ok()) return up;
    return all_.Send(OnDevice(0, count, buffer.type), peer, tag);
  });
}

Status HostView::Receive(Span buffer, int peer, std::string_view tag) {
  return Pieces(buffer.count, buffer.type, 1, [&](size_t first, size_t count) -> Status {
    Status done = all_.Receive(OnDevice(0, count, buffer.type), peer, tag);
    return done.ok() ? Download(buffer, first, count, 0) : done;
  });
}

}  // namespace lockstep::collectives
