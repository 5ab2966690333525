#include "worker/trainer/collectives/gloo/gloo_mesh.h"

#include <gloo/common/error.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <string>
#include <utility>

#include "worker/trainer/collectives/store/no_sigpipe.h"
#include "worker/trainer/collectives/store/socket.h"

namespace lockstep::collectives {
namespace {

using gloo::transport::UnboundBuffer;

// Gloo waits five times its timeout for each connection.
constexpr Duration kLongestConnect = seconds(20);
constexpr int kConnectFactor = 5;

// Gloo's store interface on the rendezvous, which belongs to one generation, so that keys need not
// name it.
class GlooStore final : public gloo::rendezvous::Store {
 public:
  GlooStore(Rendezvous* rendezvous, Time deadline) : rendezvous_(rendezvous), deadline_(deadline) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    const Status set = rendezvous_->Set("gloo/" + key, {data.data(), data.size()});
    if (!set.ok()) throw gloo::IoException(set.error().message);
  }
  std::vector<char> get(const std::string& key) override {
    const Result<std::string> value = rendezvous_->Get("gloo/" + key, deadline_);
    if (!value.ok()) throw gloo::IoException(value.error().message);
    return {value->begin(), value->end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }

 private:
  Rendezvous* rendezvous_;
  Time deadline_;
};

class AbortableBuffer final : public UnboundBuffer {
 public:
  AbortableBuffer(std::unique_ptr<UnboundBuffer> buffer, std::shared_ptr<AbortSwitch> abort_switch)
      : UnboundBuffer(buffer->ptr, buffer->size),
        buffer_(std::move(buffer)),
        switch_(std::move(abort_switch)) {
    if (!switch_->Add(buffer_.get())) throw gloo::IoException("aborted");
  }
  ~AbortableBuffer() override { switch_->Remove(buffer_.get()); }

  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override {
    return Unless(!switch_->aborted() && buffer_->waitRecv(rank, timeout));
  }
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override {
    return Unless(!switch_->aborted() && buffer_->waitSend(rank, timeout));
  }
  void abortWaitRecv() override { buffer_->abortWaitRecv(); }
  void abortWaitSend() override { buffer_->abortWaitSend(); }
  void send(int rank, uint64_t slot, size_t offset, size_t bytes) override {
    buffer_->send(rank, slot, offset, bytes);
  }
  void recv(int rank, uint64_t slot, size_t offset, size_t bytes) override {
    buffer_->recv(rank, slot, offset, bytes);
  }
  void recv(std::vector<int> ranks, uint64_t slot, size_t offset, size_t bytes) override {
    buffer_->recv(std::move(ranks), slot, offset, bytes);
  }

 private:
  static bool Unless(bool done) {
    if (!done) throw gloo::IoException("aborted");
    return true;
  }

  std::unique_ptr<UnboundBuffer> buffer_;
  std::shared_ptr<AbortSwitch> switch_;
};

// Gloo's context behind one that wraps the buffers.
class AbortableContext final : public gloo::transport::Context {
 public:
  AbortableContext(std::shared_ptr<gloo::transport::Context> context,
                   std::shared_ptr<AbortSwitch> abort_switch)
      : Context(context->rank, context->size),
        context_(std::move(context)),
        switch_(std::move(abort_switch)) {}

  std::unique_ptr<gloo::transport::Pair>& getPair(int rank) override {
    return context_->getPair(rank);
  }
  std::unique_ptr<gloo::transport::Pair>& createPair(int rank) override {
    return context_->createPair(rank);
  }
  std::unique_ptr<UnboundBuffer> createUnboundBuffer(void* data, size_t size) override {
    return std::make_unique<AbortableBuffer>(context_->createUnboundBuffer(data, size), switch_);
  }

 private:
  std::shared_ptr<gloo::transport::Context> context_;
  std::shared_ptr<AbortSwitch> switch_;
};

// Gloo's loop thread spins and competes with the threads that compute. Under SCHED_BATCH it does
// not preempt them. A thread inherits its creator's policy.
std::shared_ptr<gloo::transport::Device> MakeDevice(const gloo::transport::tcp::attr& attributes) {
  int policy = 0;
  sched_param normal{};
  pthread_getschedparam(pthread_self(), &policy, &normal);
  const sched_param batch{};
  if (policy == SCHED_OTHER) pthread_setschedparam(pthread_self(), SCHED_BATCH, &batch);
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  if (policy == SCHED_OTHER) pthread_setschedparam(pthread_self(), policy, &normal);
  return device;
}

}  // namespace

bool AbortSwitch::Add(UnboundBuffer* buffer) {
  const MutexLock lock(&mutex_);
  if (!aborted_) buffers_.insert(buffer);
  return !aborted_;
}

void AbortSwitch::Remove(UnboundBuffer* buffer) {
  const MutexLock lock(&mutex_);
  buffers_.erase(buffer);
}

void AbortSwitch::Abort() {
  const MutexLock lock(&mutex_);
  aborted_ = true;
  for (UnboundBuffer* buffer : buffers_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

bool AbortSwitch::aborted() const {
  const MutexLock lock(&mutex_);
  return aborted_;
}

GlooMesh::GlooMesh(int rank, int world, std::string interface)
    : Context(rank, world),
      switch_(std::make_shared<AbortSwitch>()),
      interface_(std::move(interface)) {}

Result<std::shared_ptr<GlooMesh>> GlooMesh::Connect(const Options& options, Rendezvous& rendezvous,
                                                    Time deadline) {
  gloo::transport::tcp::attr attributes;
  // Never by host name, which may resolve to an address that the peers cannot reach; nor by
  // Gloo's own search for an interface, which leaks.
  const Result<std::string> local = options.interface.empty()
                                        ? LocalAddressTowards(options.master_address)
                                        : AddressOf(options.interface, options.master_address);
  if (!local.ok()) return local.error();
  attributes.hostname = *local;
  std::string interface = InterfaceOf(*local);
  if (interface.empty()) interface = *local;
  const NoSigpipe none;
  const Duration left = std::clamp<Duration>(deadline - BootTime(), seconds(1), kLongestConnect);
  try {
    std::shared_ptr<GlooMesh> mesh(new GlooMesh(options.rank, options.world, interface));
    mesh->setTimeout(duration_cast<milliseconds>(left) / kConnectFactor);
    GlooStore store(&rendezvous, deadline);
    std::shared_ptr<gloo::transport::Device> device = MakeDevice(attributes);
    mesh->connectFullMesh(store, device);
    mesh->transportContext_ =
        std::make_shared<AbortableContext>(mesh->transportContext_, mesh->switch_);
    return mesh;
  } catch (const gloo::IoException& failed) {
    return Error::Unavailable(std::string("connecting the ranks: ") + failed.what());
  } catch (const std::exception& failed) {
    return Error::Internal("Gloo on " + interface + ": " + failed.what() +
                           "; GLOO_SOCKET_IFNAME names the interface to use");
  }
}

}  // namespace lockstep::collectives
