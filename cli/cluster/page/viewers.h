// Viewers: the pages of a cluster's jobs for many people. A viewer is a bearer token. Each has a
// connection of its own to the API server, with this token alone, and views that nobody else gets;
// so the API server judges all that a viewer sees. This process has no credentials.
//
//   Viewers viewers(cluster, sources);
//   PageServer server(loop, page, {.hosts = ..., .judge = [&](...) { viewers.Judge(...); }},
//                     [&](const auto& subject) { return viewers.Find(subject); });
//
// A SelfSubjectReview says whether the API server accepts a token: before its first answer, and
// again kAgain later. A token is kept as its SHA-256, and in the transport that sends it.
//
// Bounded:
//   kMost viewers. A further one takes the place of the viewer who asked longest ago.
//   kMostLogins tokens are judged at a time. kMostASecond judgements begin in a second. Sources
//   that sent a token which was refused within kRefused share half of both, so that other people
//   can log in. kMostOfSource tokens of one source are judged at a time. kMostWaiting requests wait
//   for one judgement. kMostRefused refused tokens, and as many sources, are remembered for
//   kRefused, and refused without a question. kMostTables tables a viewer (one a namespace),
//   kMostOpen jobs a table, kLines of a job's log.
// A table or job that a browser shows keeps its place. A viewer who has not asked for kIdle is
// forgotten. One thread.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_VIEWERS_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_VIEWERS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/loop/lifetime.h"
#include "base/loop/wake_timer.h"
#include "cli/cluster/connection.h"
#include "cli/cluster/page/fleet_page.h"
#include "cli/cluster/page/job_page.h"
#include "cli/cluster/page/queue_asker.h"
#include "cli/ui/page_server.h"
#include "operator/kube/config/client_config.h"

namespace lockstep::cli {

class Viewers {
 public:
  static constexpr size_t kMost = 32;
  static constexpr size_t kMostLogins = 16;
  static constexpr int kMostASecond = 8;
  static constexpr size_t kMostOfSource = 4;
  static constexpr size_t kMostWaiting = 16;
  static constexpr size_t kMostRefused = 1024;
  static constexpr Duration kRefused = seconds(30);
  static constexpr size_t kMostTables = 2;
  static constexpr size_t kMostOpen = 4;
  static constexpr LogRingLimits kLines{
      .lines = 500, .bytes = size_t{64} << 10, .in_all = size_t{1} << 20};
  static constexpr Duration kIdle = minutes(2);
  static constexpr Duration kAgain = minutes(1);

  // `cluster`: the credentials in it are not used. `sources`: what all viewers share; loop, spawner
  // and notify.
  Viewers(kube::ClientConfig cluster, JobPage::Sources sources);
  Viewers(const Viewers&) = delete;
  Viewers& operator=(const Viewers&) = delete;

  // As PageServer::Public::judge and PageServer::Find want them.
  void Judge(const std::string& token, const std::string& source, PageServer::Answer done);
  Result<const PageServer::Handlers*> Find(const PageServer::Subject& subject);

  size_t size() const { return viewers_.size(); }

 private:
  struct Viewer {
    std::unique_ptr<Connection> connection;
    std::unique_ptr<kube::Transport> streams;
    std::unique_ptr<QueueAsker> queues;
    bool accepted = false;
    bool judging = false;
    std::string source;    // of the request that made it
    bool suspect = false;  // that source had sent a refused token
    Time judged{};
    Time asked{};
    std::string own = "default";              // a service account's namespace
    std::vector<PageServer::Answer> waiting;  // for the judgement
    // By namespace; they use the above.
    std::map<std::string, std::unique_ptr<FleetPage>> tables;
  };

  Result<Viewer> Open(const std::string& token) const;
  using Refused = std::map<std::string, Time>;  // until when

  // Whether one more login may begin now.
  bool TakeLogin(const std::string& source, bool suspect);
  static bool IsRefused(Refused* refused, const std::string& key);
  static void NoteRefused(Refused* refused, const std::string& key);
  void Ask(const std::string& id, Viewer& viewer);
  void OnJudged(const std::string& id, const Result<kube::Response>& answer);
  void MakeRoom(const std::string& but);
  void ForgetIdle();

  kube::ClientConfig cluster_;
  JobPage::Sources sources_;
  std::map<std::string, Viewer> viewers_;  // by their token's SHA-256
  Refused refused_;                        // by their token's SHA-256
  Refused suspects_;                       // sources of refused tokens; "" is none
  Time second_{};                          // in which logins_ began
  int logins_ = 0;
  int suspect_logins_ = 0;  // of these, from suspects_
  WakeTimer idle_;
  Lifetime lifetime_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_VIEWERS_H_
