// As NCCL's RAS thread: listens in this process, and answers one client after the other.
//
//   RasServer server({.status = "Errors\n======\n\n..."});
//   setenv("NCCL_RAS_ADDR", server.named().c_str(), 1);
#ifndef LOCKSTEP_TESTS_WORKER_RAS_RAS_SERVER_H_
#define LOCKSTEP_TESTS_WORKER_RAS_RAS_SERVER_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/net/tcp.h"
#include "base/text/endpoint.h"
#include "base/unique_fd.h"

namespace lockstep::ras {

// NCCL 2.26's, of a job of which one process was stopped.
inline constexpr const char* kOneMissing = R"(NCCL version 2.26.2 compiled with CUDA 12.8

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          3            1          3        3

Communicators... (1.05s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         2         3         3   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 10.0.0.7 managing GPU 2

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 2

Warnings
========

TIMEOUT
  Encountered 1 communication timeout while gathering communicator data

)";

class RasServer {
 public:
  struct Options {
    std::string greeting = "SERVER PROTOCOL 2\n";  // "": none, the connection stays open
    std::string status = kOneMissing;
    bool endless = false;     // of the status
    bool stays = false;       // open after it
    size_t silent_first = 0;  // connections that get no greeting
  };

  explicit RasServer(Options options) : options_(std::move(options)) {
    auto listener = ListenTcp(*MakeEndpoint("127.0.0.1", 0), 8);
    EXPECT_TRUE(listener.ok());
    listener_ = std::move(*listener);
    address_ = *LocalEndpoint(listener_.get());
    thread_ = std::thread([this] { Run(); });
  }
  ~RasServer() {
    stop_ = true;
    thread_.join();
  }
  RasServer(const RasServer&) = delete;
  RasServer& operator=(const RasServer&) = delete;

  const Endpoint& address() const { return address_; }
  // As a user writes it.
  std::string named() const { return "localhost:" + std::to_string(address_.port()); }

 private:
  void Run() {
    std::vector<UniqueFd> held;
    size_t clients = 0;
    while (!stop_) {
      pollfd wait{listener_.get(), POLLIN, 0};
      if (poll(&wait, 1, 10) != 1) continue;
      UniqueFd client(accept(listener_.get(), nullptr, nullptr));
      if (!options_.greeting.empty() && clients++ >= options_.silent_first) Serve(client.get());
      if (options_.greeting.empty() || clients <= options_.silent_first || options_.stays) {
        held.push_back(std::move(client));
      }
    }
  }

  void Serve(int client) {
    EXPECT_EQ(Line(client), "CLIENT PROTOCOL 2\n");
    Say(client, options_.greeting);
    if (!options_.greeting.starts_with("SERVER")) return;
    EXPECT_EQ(Line(client).substr(0, 8), "TIMEOUT ");
    Say(client, "OK\n");
    EXPECT_EQ(Line(client), "VERBOSE STATUS\n");
    Say(client, options_.status);
    while (options_.endless && Say(client, std::string(65536, 'x'))) {
    }
  }
  static bool Say(int client, const std::string& text) {
    return send(client, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  static std::string Line(int client) {
    std::string line;
    char c = 0;
    while (!line.ends_with('\n') && recv(client, &c, 1, 0) == 1) line += c;
    return line;
  }

  const Options options_;
  UniqueFd listener_;
  Endpoint address_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace lockstep::ras

#endif  // LOCKSTEP_TESTS_WORKER_RAS_RAS_SERVER_H_
