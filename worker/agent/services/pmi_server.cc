#include "worker/agent/services/pmi_server.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "base/net/peer_owner.h"
#include "base/net/tcp.h"

namespace lockstep::agent {

namespace {

// Enough that one who has just come is read before it is displaced.
constexpr size_t kMostStrangers = 128;
constexpr size_t kMostUnread = size_t{64} << 10;

// PMI's clients take an int for it.
std::vector<uint32_t> RandomIds(uint32_t count) {
  std::random_device device;
  std::uniform_int_distribution<uint32_t> numbers(1, std::numeric_limits<int32_t>::max());
  std::set<uint32_t> ids;
  while (ids.size() < count) ids.insert(numbers(device));
  std::vector<uint32_t> shuffled(ids.begin(), ids.end());
  std::shuffle(shuffled.begin(), shuffled.end(), device);
  return shuffled;
}

}  // namespace

PmiServer::PmiServer(EventLoop* loop, std::string job_uid, uint32_t machine, uint32_t machines,
                     uint32_t processes, MpiOwner* owner, LogFn log)
    : loop_(loop),
      job_uid_(std::move(job_uid)),
      machine_(machine),
      machines_(machines),
      processes_(processes),
      owner_(owner),
      log_(std::move(log)),
      ends_(loop, machine * processes, uint64_t{machines} * processes, owner, log_) {}

Status PmiServer::Begin(core::Generation generation) {
  End();
  generation_ = generation;
  const Result<Endpoint> any = ParseEndpoint("127.0.0.1:0");
  Result<UniqueFd> fd = ListenTcp(*any, 128);
  if (!fd.ok()) return fd.error();
  const Result<Endpoint> local = LocalEndpoint(fd->get());
  if (!local.ok()) return local.error();
  address_ = local->ToString();
  ids_ = RandomIds(processes_);
  pmi_.emplace(Pmi::Shape{machine_, machines_, processes_,
                          "kvs_" + job_uid_ + "_" + generation.ToString(), ids_});
  LineServer::Handlers handlers;
  handlers.on_line = [this](LineServer::ClientId client, std::string_view line) {
    return OnLine(client, line);
  };
  // Ranks run as the agent's user. Where the kernel does not tell, the ids alone must do.
  handlers.admit = [](int socket) { return OwnerOfPeer(socket).value_or(geteuid()) == geteuid(); };
  handlers.make_room = [this] { return MakeRoom(); };
  handlers.on_open = [this](LineServer::ClientId client) { strangers_.insert(client); };
  handlers.on_close = [this](LineServer::ClientId client) {
    strangers_.erase(client);
    pmi_->OnClose(client);
  };
  server_ =
      std::make_unique<LineServer>(loop_,
                                   LineServer::Options{.what = "a connection to PMI",
                                                       .max_clients = processes_ + kMostStrangers,
                                                       .max_line = Pmi::kMaxLine,
                                                       .max_unread = kMostUnread},
                                   std::move(handlers), log_);
  return server_->Start(std::move(*fd));
}

void PmiServer::End() {
  server_.reset();
  pmi_.reset();
  strangers_.clear();
  ends_.Clear();
}

// Whoever holds connections and proves nothing displaces its like alone. The one that waited
// longest is read first: it may have said whose it is, or have left.
bool PmiServer::MakeRoom() {
  while (!strangers_.empty()) {
    const LineServer::ClientId oldest = *strangers_.begin();
    server_->ReadNow(oldest);
    if (server_->clients() < processes_ + kMostStrangers) return true;
    if (!strangers_.contains(oldest)) continue;
    server_->Drop(oldest, "it was closed for newer connections before it named its rank");
    return true;
  }
  return false;
}

Status PmiServer::OnLine(LineServer::ClientId client, std::string_view line) {
  Result<Pmi::Effects> effects = pmi_->OnLine(client, line);
  if (!effects.ok()) return effects.error();
  strangers_.erase(client);
  CarryOut(std::move(*effects));
  return {};
}

void PmiServer::Deliver(const core::DeliverFence& fence) {
  if (pmi_ && fence.generation == generation_) CarryOut(pmi_->OnFence(fence.entries, fence.last));
}

void PmiServer::CarryOut(Pmi::Effects effects) {
  for (const auto& [client, answer] : effects.answers) server_->Answer(client, answer);
  if (effects.abort) ends_.OnAbort(*effects.abort);
  if (effects.fence) owner_->OnFence(generation_, *std::move(effects.fence));
}

bool PmiServer::Judge(uint32_t local_rank, core::Failure* death) {
  if (!pmi_) return death->exit_code != 0;
  server_->ReadNow();  // its last line, before its end
  return ends_.Judge(local_rank, pmi_->StageOf(local_rank), death);
}

}  // namespace lockstep::agent
