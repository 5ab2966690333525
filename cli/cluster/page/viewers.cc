#include "cli/cluster/page/viewers.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/crypto/sha256.h"
#include "base/text/json.h"
#include "operator/kube/api.h"

namespace lockstep::cli {
namespace {

constexpr kube::Resource kSelfReviews{"authentication.k8s.io", "v1", "selfsubjectreviews"};
constexpr Duration kPatience = seconds(10);
constexpr const char* kNotAccepted = "the API server does not accept this token";
constexpr const char* kNoTableFree =
    "the tables of two namespaces are shown already: close another tab";
constexpr const char* kTooManyLogins = "too many people log in at once; the page tries again";

std::string IdOf(const std::string& token) {
  Sha256 hash;
  hash.Add(std::as_bytes(std::span(token)));
  return hash.Hex();
}

// "team-a" of system:serviceaccount:team-a:viewer, as a SelfSubjectReview names its asker.
std::optional<std::string> NamespaceOf(const std::string& review) {
  constexpr std::string_view kAccount = "system:serviceaccount:";
  OrderedJson at = ParseOrderedJson(review);
  for (const char* name : {"status", "userInfo", "username"}) {
    if (!at.is_object() || !at.contains(name)) return {};
    at = OrderedJson(at[name]);
  }
  if (!at.is_string()) return {};
  const std::string who = at;
  if (!who.starts_with(kAccount)) return {};
  const size_t end = who.find(':', kAccount.size());
  if (end == std::string::npos) return {};
  return who.substr(kAccount.size(), end - kAccount.size());
}

bool IsDown(const Result<kube::Response>& answer) {
  return !answer.ok() || answer->status == 429 || answer->status >= 500;
}

}  // namespace

Viewers::Viewers(kube::ClientConfig cluster, JobPage::Sources sources)
    : cluster_(std::move(cluster)),
      sources_(std::move(sources)),
      idle_(sources_.loop, [this] { ForgetIdle(); }) {
  cluster_.token = {};
  cluster_.certificate = {};
  cluster_.key = {};
  cluster_.exec.reset();
  sources_.where = {};
  sources_.kubectl.clear();
  sources_.no_exec =
      "this server runs no `kubectl exec`, so per-rank progress and stacks are not shown; `kubectl "
      "lockstep ui NAME` shows them";
  sources_.lines = kLines;
}

Result<Viewers::Viewer> Viewers::Open(const std::string& token) const {
  kube::ClientConfig config = cluster_;
  config.token.value = token;
  Viewer viewer;
  Result<std::unique_ptr<Connection>> connection = Connection::Open(std::move(config));
  if (!connection.ok()) return connection.error();
  viewer.connection = std::move(*connection);
  Result<std::unique_ptr<kube::Transport>> streams = viewer.connection->OpenTransport();
  if (!streams.ok()) return streams.error();
  viewer.streams = std::move(*streams);
  viewer.queues = std::make_unique<QueueAsker>(sources_.loop, viewer.connection.get());
  return viewer;
}

void Viewers::Judge(const std::string& token, const std::string& source, PageServer::Answer done) {
  const std::string id = IdOf(token);
  auto found = viewers_.find(id);
  if (found == viewers_.end()) {
    if (IsRefused(&refused_, id)) return done(Error::Denied(kNotAccepted));
    const bool suspect = IsRefused(&suspects_, source);
    if (!TakeLogin(source, suspect)) return done(Error::Unavailable(kTooManyLogins));
    Result<Viewer> opened = Open(token);
    if (!opened.ok()) return done(opened.error());
    found = viewers_.emplace(id, std::move(*opened)).first;
    found->second.source = source;
    found->second.suspect = suspect;
  }
  Viewer& viewer = found->second;
  viewer.asked = BootTime();
  if (!idle_.armed()) idle_.WakeAt(viewer.asked + kIdle);
  if (viewer.accepted && viewer.asked - viewer.judged < kAgain) return done(id);
  if (viewer.waiting.size() >= kMostWaiting) return done(Error::Unavailable(kTooManyLogins));
  viewer.waiting.push_back(std::move(done));
  if (!viewer.judging) Ask(id, viewer);
}

bool Viewers::TakeLogin(const std::string& source, bool suspect) {
  size_t judged = 0;
  size_t of_suspects = 0;
  size_t of_source = 0;
  for (const auto& [id, viewer] : viewers_) {
    if (viewer.accepted) continue;
    ++judged;
    if (viewer.suspect) ++of_suspects;
    if (viewer.source == source) ++of_source;
  }
  if (judged >= kMostLogins || (suspect && of_suspects >= kMostLogins / 2)) return false;
  if (!source.empty() && of_source >= kMostOfSource) return false;
  const Time now = BootTime();
  if (now - second_ >= seconds(1)) {
    second_ = now;
    logins_ = suspect_logins_ = 0;
  }
  if (logins_ >= kMostASecond || (suspect && suspect_logins_ >= kMostASecond / 2)) return false;
  ++logins_;
  if (suspect) ++suspect_logins_;
  return true;
}

bool Viewers::IsRefused(Refused* refused, const std::string& key) {
  const Time now = BootTime();
  std::erase_if(*refused, [now](const auto& each) { return each.second <= now; });
  return refused->contains(key);
}

void Viewers::NoteRefused(Refused* refused, const std::string& key) {
  if (refused->size() >= kMostRefused) {
    refused->erase(
        std::ranges::min_element(*refused, {}, [](const auto& each) { return each.second; }));
  }
  (*refused)[key] = BootTime() + kRefused;
}

void Viewers::Ask(const std::string& id, Viewer& viewer) {
  viewer.judging = true;
  viewer.connection->client().transport().Send(
      {.method = kube::Method::kPost,
       .path = kube::Path(kSelfReviews, ""),
       .body = R"({"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"})"},
      kPatience, lifetime_.Hop(sources_.loop, [this, id](const Result<kube::Response>& answer) {
        OnJudged(id, answer);
      }));
}

void Viewers::OnJudged(const std::string& id, const Result<kube::Response>& answer) {
  const auto found = viewers_.find(id);
  if (found == viewers_.end()) return;
  Viewer& viewer = found->second;
  viewer.judging = false;
  const std::vector<PageServer::Answer> waiting = std::exchange(viewer.waiting, {});
  Result<std::string> verdict = id;
  if (IsDown(answer)) {
    verdict = Error::Unavailable("the API server does not answer" +
                                 (answer.ok() ? " (code " + std::to_string(answer->status) + ")"
                                              : ": " + answer.error().message));
    if (!viewer.accepted) viewers_.erase(found);
  } else if (answer->status == 401) {
    verdict = Error::Denied(kNotAccepted);
    NoteRefused(&refused_, id);
    if (!viewer.source.empty()) NoteRefused(&suspects_, viewer.source);
    viewers_.erase(found);
  } else {  // a 403, too, says that it knows who asks
    viewer.judged = BootTime();
    viewer.accepted = true;
    if (const auto own = NamespaceOf(answer->body)) viewer.own = *own;
    MakeRoom(id);
  }
  for (const PageServer::Answer& each : waiting) each(verdict);
}

Result<const PageServer::Handlers*> Viewers::Find(const PageServer::Subject& subject) {
  const auto found = viewers_.find(subject.viewer);
  if (found == viewers_.end() || !found->second.accepted) return nullptr;
  Viewer& viewer = found->second;
  if (!viewer.tables.contains(subject.name_space)) {
    if (subject.visit != PageServer::Visit::kAsk) return Error::Unavailable(kNoTableFree);
    if (viewer.tables.size() >= kMostTables) {
      const auto oldest = std::ranges::min_element(
          viewer.tables, {}, [](const auto& each) { return each.second->asked(); });
      if (BootTime() - oldest->second->asked() < PageServer::kShown)
        return Error::Unavailable(kNoTableFree);
      viewer.tables.erase(oldest);
    }
  }
  std::unique_ptr<FleetPage>& table = viewer.tables[subject.name_space];
  if (!table) {
    JobPage::Sources sources = sources_;
    sources.connection = viewer.connection.get();
    sources.streams = viewer.streams.get();
    sources.queues = viewer.queues.get();
    table = std::make_unique<FleetPage>(
        sources, FleetPage::Options{.only = subject.name_space,
                                    .own = viewer.own,
                                    .another = "name another in the address, as ?namespace=NAME",
                                    .most_open = kMostOpen});
  }
  return table->Find(subject.job, subject.visit);
}

void Viewers::MakeRoom(const std::string& but) {
  const auto accepted = [](const auto& each) { return each.second.accepted; };
  while (static_cast<size_t>(std::ranges::count_if(viewers_, accepted)) > kMost) {
    auto oldest = viewers_.end();
    for (auto each = viewers_.begin(); each != viewers_.end(); ++each) {
      if (!each->second.accepted || each->second.judging || each->first == but) continue;
      if (oldest == viewers_.end() || each->second.asked < oldest->second.asked) oldest = each;
    }
    if (oldest == viewers_.end()) return;
    viewers_.erase(oldest);
  }
}

void Viewers::ForgetIdle() {
  const Time now = BootTime();
  std::erase_if(viewers_, [now](const auto& each) {
    return !each.second.judging && now - each.second.asked >= kIdle;
  });
  if (!viewers_.empty()) idle_.WakeAt(now + kIdle / 2);
}

}  // namespace lockstep::cli
