#include "cli/ui/page_server.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/net/connection.h"
#include "base/process/stop_signals.h"
#include "base/text/ascii.h"
#include "base/text/json.h"
#include "cli/say.h"

namespace lockstep::cli {
namespace {

constexpr size_t kTokenBytes = 24;
constexpr size_t kMostOfName = 32;  // letters that a page chooses for itself
constexpr size_t kMostOfJob = 512;  // NAMESPACE/NAME
constexpr size_t kCompressFrom = size_t{1} << 20;
constexpr size_t kMostOfAnswer = Connection::kMaxQueued - (size_t{64} << 10);

// As RFC 4648's base64url, of whole groups of three bytes.
std::string NewToken() {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::array<uint8_t, kTokenBytes> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("the kernel gives no random bytes");
  }
  std::string token;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const uint32_t group =
        uint32_t{bytes[i]} << 16U | uint32_t{bytes[i + 1]} << 8U | uint32_t{bytes[i + 2]};
    for (const unsigned shift : {18U, 12U, 6U, 0U}) token += kLetters[group >> shift & 63U];
  }
  return token;
}

bool SameSecret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    different |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return different == 0;
}

std::vector<std::pair<std::string, std::string>> SafeHeaders() {
  return {{"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cross-Origin-Opener-Policy", "same-origin"}};
}

HttpResponse JsonAnswer(int status, std::string body) {
  return {.status = status,
          .content_type = "application/json",
          .body = std::move(body),
          .headers = SafeHeaders()};
}

HttpResponse Refuse(int status, std::string_view why) {
  HttpResponse response = JsonAnswer(status, DumpJson(OrderedJson{{"error", std::string(why)}}));
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (status == 405) response.headers.emplace_back("Allow", "GET, HEAD");
  return response;
}

bool TakesGzip(const HttpRequest& request) {
  const std::string* codings = request.Header("accept-encoding");
  return codings != nullptr && codings->find("gzip") != std::string::npos;
}

int StatusOf(const Error& error) {
  if (error.kind == ErrorKind::kInvalid) return 400;
  return error.kind == ErrorKind::kNotFound ? 404 : 503;
}

void Send(HttpResponder respond, bool gzip, Result<std::string> json) {
  if (!json.ok()) return respond.Send(Refuse(StatusOf(json.error()), json.error().message));
  HttpResponse response = JsonAnswer(200, std::move(*json));
  if (response.body.size() > kCompressFrom && gzip) {
    response.body = Compress(response.body);
    response.headers.emplace_back("Content-Encoding", "gzip");
  }
  if (response.body.size() > kMostOfAnswer) {
    return respond.Send(Refuse(503,
                               "the answer is too large for this page; `lockstep ui "
                               "REPORT.json --html FILE` writes it"));
  }
  respond.Send(std::move(response));
}

// Absent as not given; an error for what is no number.
template <typename Number>
Result<std::optional<Number>> NumberOf(const HttpRequest& request, std::string_view name) {
  const std::string* text = request.Query(name);
  if (text == nullptr || text->empty()) return std::optional<Number>();
  const std::optional<Number> number = ParseNumber<Number>(*text);
  if (!number) return Error::Invalid(std::string(name) + " must be a whole number");
  return number;
}

// "localhost" of "localhost:8080", "[::1]" of "[::1]:8080".
std::string_view NameOf(std::string_view host) {
  const size_t end = host.starts_with('[') ? host.find(']') + 1 : host.find(':');
  const std::string_view name = host.substr(0, end);
  const std::string_view rest = host.substr(name.size());
  const bool has_port = rest.size() > 1 && rest.starts_with(':') &&
                        rest.find_first_not_of("0123456789", 1) == std::string_view::npos;
  return rest.empty() || has_port ? name : "";
}

}  // namespace

Refusal RefusalOf(const HttpRequest& request) {
  size_t hosts = 0;
  for (const auto& [name, value] : request.headers) hosts += name == "host" ? 1 : 0;
  const std::string* host = request.Header("host");
  const std::string name = hosts == 1 ? ToLower(NameOf(*host)) : "";
  if (name != "127.0.0.1" && name != "localhost" && name != "[::1]") {
    return {421,
            "the page is at 127.0.0.1, localhost or [::1]; open the address that lockstep printed"};
  }
  const std::string* origin = request.Header("origin");
  if (origin != nullptr && *origin != "http://" + *host && *origin != "https://" + *host) {
    return {403, "a page of another origin may not ask"};
  }
  const std::string* site = request.Header("sec-fetch-site");
  if (site == nullptr || *site == "same-origin" || *site == "none") return {};
  const std::string* mode = request.Header("sec-fetch-mode");
  const std::string* into = request.Header("sec-fetch-dest");
  const bool follows_link = request.path == "/" && mode != nullptr && *mode == "navigate" &&
                            into != nullptr && *into == "document";
  if (follows_link) return {};
  return {403, "a page of another origin may not ask"};
}

void StopOnSignals(EventLoop* loop) {
  for (const int signal : lockstep::kStopSignals) {  // not those of bench.cc
    loop->OnSignal(signal, [loop] { loop->Stop(); });
  }
}

PageServer::PageServer(EventLoop* loop, PageFile page, Find find)
    : loop_(loop),
      page_(page),
      find_(std::move(find)),
      token_(NewToken()),
      http_(loop, {.max_connections = kMostConnections},
            [this](const HttpRequest& request, HttpResponder respond) {
              Serve(request, std::move(respond));
            }) {}

PageServer::PageServer(EventLoop* loop, PageFile page, Handlers handlers)
    : PageServer(loop, page, [handlers = std::move(handlers)](const std::string& job) {
        return job.empty() ? &handlers : nullptr;
      }) {}

PageServer::~PageServer() {
  for (const Waiting& waiting : waiting_) loop_->CancelTimer(waiting.timer);
}

Status PageServer::Listen(uint16_t port) {
  const Result<Endpoint> endpoint = MakeEndpoint("127.0.0.1", port);
  if (!endpoint.ok()) return endpoint.error();
  return http_.Listen(*endpoint);
}

Status PageServer::ServeUntilStopped(uint16_t port) {
  if (Status listens = Listen(port); !listens.ok()) return listens;
  Say("the page: " + address() + "; Ctrl-C ends it");
  loop_->Run();
  return {};
}

std::string PageServer::address() const {
  return "http://127.0.0.1:" + std::to_string(port()) + "/#" + token_;
}

void PageServer::Serve(const HttpRequest& request, HttpResponder respond) {
  if (const Refusal refusal = RefusalOf(request); refusal.status != 0) {
    return respond.Send(Refuse(refusal.status, refusal.reason));
  }
  if (request.method != "GET" && request.method != "HEAD") {
    return respond.Send(Refuse(405, "only GET is supported"));
  }
  if (request.path == "/") return ServeHtml(request, std::move(respond));
  if (!Knows(request)) {
    return respond.Send(Refuse(401, "open the address that lockstep printed: it holds the token"));
  }
  ServeData(request, std::move(respond));
}

bool PageServer::Knows(const HttpRequest& request) const {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string* given = request.Header("authorization");
  return given != nullptr && given->starts_with(kScheme) &&
         SameSecret(std::string_view(*given).substr(kScheme.size()), token_);
}

void PageServer::ServeHtml(const HttpRequest& request, HttpResponder respond) const {
  HttpResponse response{.content_type = "text/html; charset=utf-8", .headers = SafeHeaders()};
  response.headers.emplace_back("Content-Security-Policy", std::string(page_.csp));
  if (TakesGzip(request)) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = std::string(page_.html);
    return respond.Send(std::move(response));
  }
  Result<std::string> html = Decompress(page_.html);
  if (!html.ok()) return respond.Send(Refuse(503, html.error().message));
  response.body = std::move(*html);
  respond.Send(std::move(response));
}

void PageServer::ServeData(const HttpRequest& request, HttpResponder respond) {
  const std::string* named = request.Query("job");
  const std::string job = named == nullptr ? "" : *named;
  const Handlers* handlers = job.size() <= kMostOfJob ? find_(job) : nullptr;
  if (handlers == nullptr) return respond.Send(Refuse(404, "this page shows no such job"));
  if (request.path == "/api/view") return ServeView(request, job, std::move(respond));
  const bool gzip = TakesGzip(request);
  const auto rank = NumberOf<uint32_t>(request, "rank");
  const auto after = NumberOf<uint64_t>(request, "after");
  const auto machine = NumberOf<uint32_t>(request, "machine");
  if (!rank.ok()) return Send(std::move(respond), gzip, rank.error());
  if (!after.ok()) return Send(std::move(respond), gzip, after.error());
  if (!machine.ok()) return Send(std::move(respond), gzip, machine.error());
  const Answer answer = [respond, gzip](Result<std::string> json) {
    Send(respond, gzip, std::move(json));
  };
  if (request.path == "/api/log" && handlers->log) {
    return handlers->log(*rank, after->value_or(0), answer);
  }
  if (request.path == "/api/stacks" && handlers->stacks) return handlers->stacks(*rank, answer);
  if (request.path == "/api/topology" && handlers->topology) {
    return answer(handlers->topology(machine->value_or(0)));
  }
  respond.Send(Refuse(404, "there is no such path"));
}

void PageServer::ServeView(const HttpRequest& request, const std::string& job,
                           HttpResponder respond) {
  const auto after = NumberOf<uint64_t>(request, "after");
  const std::string* id = request.Query("id");
  const std::string page = id == nullptr ? "" : *id;
  const bool plain = std::ranges::all_of(page, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
  if (!after.ok()) return Send(std::move(respond), false, after.error());
  if (!plain || page.size() > kMostOfName) {
    return Send(std::move(respond), false,
                Error::Invalid("id must be at most 32 letters and digits"));
  }
  if (!pages_.contains(page) && pages_.size() >= kMostPages) {
    pages_.erase(
        std::ranges::min_element(pages_, {}, [](const auto& entry) { return entry.second.asked; }));
  }
  pages_[page] = {loop_->now(), after->value_or(0)};
  Waiting waiting{std::move(respond), job, page, after->value_or(0), 0};
  // A page of an earlier run may know more than there is.
  const uint64_t version = find_(job)->version();
  if (version != 0 && waiting.after != version) return SendView(std::move(waiting));
  waiting_.push_back(std::move(waiting));
  const auto place = std::prev(waiting_.end());
  place->timer = loop_->StartTimer(loop_->now() + kPatience, [this, place] {
    Waiting late = std::move(*place);
    waiting_.erase(place);
    SendView(std::move(late));
  });
}

void PageServer::SendView(Waiting waiting) {
  if (waiting.respond.gone()) return;
  const Handlers* handlers = find_(waiting.job);
  if (handlers == nullptr || handlers->version() == 0) {
    return waiting.respond.Send(Refuse(503, "nothing is known yet"));
  }
  if (const auto found = pages_.find(waiting.page); found != pages_.end()) {
    found->second = {loop_->now(), handlers->version()};
  }
  // Every browser takes gzip; it is used for large views alone.
  Send(std::move(waiting.respond), true, handlers->view(waiting.after));
}

void PageServer::Notify() {
  if (waiting_.empty() || notifying_) return;
  notifying_ = true;
  loop_->Post(lifetime_.Guard([this] {
    notifying_ = false;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const Handlers* handlers = find_(it->job);
      const uint64_t version = handlers == nullptr ? 0 : handlers->version();
      if ((version == 0 || it->after == version) && !it->respond.gone()) {
        ++it;
        continue;
      }
      loop_->CancelTimer(it->timer);
      Waiting waiting = std::move(*it);
      it = waiting_.erase(it);
      SendView(std::move(waiting));
    }
  }));
}

bool PageServer::Owes() const {
  const Handlers* handlers = find_("");
  const uint64_t version = handlers == nullptr ? 0 : handlers->version();
  const Time now = BootTime();
  const bool late = std::ranges::any_of(pages_, [&](const auto& entry) {
    return entry.second.had != version && now - entry.second.asked < kWatching;
  });
  const bool waits =
      std::ranges::any_of(waiting_, [](const Waiting& waiting) { return !waiting.respond.gone(); });
  return late || waits || !http_.sent();
}

}  // namespace lockstep::cli
