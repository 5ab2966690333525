// Gloo's side of transport.h: the mesh, and which algorithm carries out which operation.
#include <gloo/allreduce.h>
#include <gloo/common/error.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "worker/trainer/collectives/gloo/direct.h"
#include "worker/trainer/collectives/gloo/gloo_mesh.h"
#include "worker/trainer/collectives/gloo/reduce.h"
#include "worker/trainer/collectives/store/flight_recorder.h"
#include "worker/trainer/collectives/store/no_sigpipe.h"
#include "worker/trainer/collectives/transport.h"

namespace lockstep::collectives {
namespace {

class GlooTransport final : public Transport {
 public:
  GlooTransport(std::shared_ptr<GlooMesh> mesh, core::Reduce algorithm)
      : mesh_(std::move(mesh)), direct_(mesh_.get(), DirectSizes{}), algorithm_(algorithm) {}

  Memory memory() const override { return Memory::kHost; }
  std::string Describe() const override { return "Gloo over TCP on " + mesh_->interface(); }

  Status Start(const Operation& operation) override {
    try {
      Carry(operation);
      return {};
    } catch (const gloo::IoException& failed) {
      return Error::Unavailable(std::string("Gloo: ") + failed.what());
    } catch (const std::exception& failed) {
      return Error::Internal(std::string("Gloo: ") + failed.what());
    }
  }
  // Start() carried it out.
  Result<bool> Finish(Duration) override { return true; }
  void Abort() override { mesh_->abort_switch().Abort(); }

 private:
  void Carry(const Operation& operation) {
    if (IsCollective(operation.kind) && !operation.group) direct_.AwaitPosts(operation);
    switch (operation.kind) {
      case OperationKind::kAllReduce:
        if (operation.out.count == 0) return;
        return algorithm_ == core::Reduce::kTree || operation.group ? direct_.AllReduce(operation)
                                                                    : Ring(operation);
      case OperationKind::kBroadcast:
        return direct_.Broadcast(operation);
      case OperationKind::kReduceScatter:
        return direct_.ReduceScatter(operation);
      case OperationKind::kAllGather:
        return direct_.AllGather(operation);
      case OperationKind::kSend:
        return operation.posts > 0 ? direct_.Post(operation) : direct_.Send(operation);
      case OperationKind::kReceive:
        return direct_.Receive(operation);
      case OperationKind::kExchange:  // in device memory alone
        return;
      case OperationKind::kBarrier:
        return direct_.Barrier(operation);
    }
  }

  void Ring(const Operation& operation) {
    const Span& buffer = operation.out;
    gloo::AllreduceOptions options(mesh_);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setTag(static_cast<uint32_t>(operation.number));
    options.setTimeout(
        duration_cast<milliseconds>(std::max<Duration>(operation.deadline - BootTime(), {})) +
        seconds(5));
    options.setReduceFunction([&](void* out, const void* a, const void* b, size_t count) {
      const std::array<const void*, 2> sources{a, b};
      ReduceTree(operation.reduction, buffer.type, sources, count, out);
    });
    if (buffer.type == DataType::kFloat32) {
      options.setOutput(static_cast<float*>(buffer.data), buffer.count);
    } else {
      options.setOutput(static_cast<int64_t*>(buffer.data), buffer.count);
    }
    gloo::allreduce(options);
  }

  const std::shared_ptr<GlooMesh> mesh_;
  Direct direct_;
  const core::Reduce algorithm_;
};

}  // namespace

Result<std::unique_ptr<Transport>> ConnectGloo(const Options& options, Rendezvous& rendezvous,
                                               Time deadline) {
  const NoSigpipe none;
  Result<std::shared_ptr<GlooMesh>> mesh = GlooMesh::Connect(options, rendezvous, deadline);
  if (!mesh.ok()) return mesh.error();
  auto transport = std::make_unique<GlooTransport>(std::move(*mesh), options.algorithm);
  // A rank that is connected may work, and leave, while others still connect to it.
  const Operation all_here{
      .kind = OperationKind::kBarrier, .number = 0, .in = {}, .out = {}, .deadline = deadline};
  if (Status here = transport->Start(all_here); !here.ok()) return here.error();
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace lockstep::collectives
