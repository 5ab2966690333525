#include "tests/fakes/fake_nccl/ras.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <vector>

namespace lockstep::fake_nccl {
namespace {

void Say(int client, const std::string& text) {
  [[maybe_unused]] const ssize_t sent = send(client, text.data(), text.size(), MSG_NOSIGNAL);
}

std::string Line(int client) {
  std::string line;
  char c = 0;
  while (recv(client, &c, 1, 0) == 1 && c != '\n') line += c;
  return line;
}

}  // namespace

Ras& Ras::TheOne() {
  static Ras ras;
  return ras;
}

void Ras::Tell(Exchange* exchange, int world) {
  if (std::getenv("FAKE_RAS") == nullptr) return;
  Ras& ras = TheOne();
  const std::lock_guard lock(ras.mutex_);
  ras.exchange_ = exchange;
  ras.world_ = world;
}

void Ras::Forget(Exchange* exchange) {
  if (std::getenv("FAKE_RAS") == nullptr) return;
  Ras& ras = TheOne();
  const std::lock_guard lock(ras.mutex_);
  if (ras.exchange_ == exchange) ras.exchange_ = nullptr;
}

Ras::Ras() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const char* named = std::getenv("NCCL_RAS_ADDR");
  const std::string address = named == nullptr ? "localhost:28028" : named;
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  where.sin_port =
      htons(static_cast<uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str())));
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(listener_, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) return;
  listen(listener_, 8);
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void Ras::Run(const std::stop_token& stop) const {
  while (!stop.stop_requested()) {
    pollfd wait{listener_, POLLIN, 0};
    if (poll(&wait, 1, 20) != 1) continue;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    Answer(client);
    close(client);
  }
}

void Ras::Answer(int client) const {
  if (Line(client) != "CLIENT PROTOCOL 2") return;
  Say(client, "SERVER PROTOCOL 2\n");
  if (!Line(client).starts_with("TIMEOUT ")) return;
  Say(client, "OK\n");
  if (Line(client) == "VERBOSE STATUS") Say(client, Status());
}

std::string Ras::Status() const {
  const std::lock_guard lock(mutex_);
  std::map<uint64_t, std::vector<int>> launched;
  for (int rank = 0; exchange_ != nullptr && rank < world_; ++rank) {
    launched[exchange_->region().launched[static_cast<size_t>(rank)].load()].push_back(rank);
  }
  std::string text = "Job summary\n===========\n\nErrors\n======\n\nWarnings\n========\n\n";
  if (launched.size() < 2) return text;
  text +=
      "#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different operation counts\n";
  for (const auto& [count, ranks] : launched) {
    const std::string up_to = " launched up to operation " + std::to_string(count) + "\n";
    text += ranks.size() > 1 ? "  " + std::to_string(ranks.size()) + " ranks have" + up_to
                             : "  Rank " + std::to_string(ranks.front()) + " has" + up_to;
  }
  return text;
}

}  // namespace lockstep::fake_nccl
