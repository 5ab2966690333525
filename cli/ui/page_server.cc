#include "cli/ui/page_server.h"

#include <arpa/inet.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/http/listen_on.h"
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
constexpr size_t kMostOfToken = size_t{32} << 10;
constexpr const char* kNoSuchJob = "this page shows no such job";
constexpr const char* kOthersMayNotAsk = "a page of another origin may not ask";
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

// `login`: the page may ask for another token.
HttpResponse Refuse(int status, std::string_view why, bool login = false) {
  OrderedJson body = {{"error", std::string(why)}};
  if (login) body["login"] = true;
  HttpResponse response = JsonAnswer(status, DumpJson(body));
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

PageServer::Subject With(PageServer::Subject subject, PageServer::Visit visit) {
  subject.visit = visit;
  return subject;
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

// As RFC 6750 spells a token; "": there is none.
std::string TokenOf(const HttpRequest& request) {
  constexpr std::string_view kScheme = "Bearer ";
  const std::string* given = request.Header("authorization");
  if (given == nullptr || !given->starts_with(kScheme)) return "";
  std::string token = given->substr(kScheme.size());
  const bool plain = std::ranges::all_of(token, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._~+/=").find(c) != std::string_view::npos;
  });
  return plain && token.size() <= kMostOfToken ? token : "";
}

std::string Parameter(const HttpRequest& request, std::string_view name) {
  const std::string* text = request.Query(name);
  return text == nullptr ? "" : *text;
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

Refusal RefusalOf(const HttpRequest& request, const std::vector<std::string>& hosts) {
  size_t given = 0;
  for (const auto& [name, value] : request.headers) given += name == "host" ? 1 : 0;
  const std::string* host = request.Header("host");
  const std::string name = given == 1 ? ToLower(NameOf(*host)) : "";
  if (!hosts.empty()) {
    if (std::ranges::find(hosts, name) == hosts.end()) {
      return {421, "the page has another name; its --host lists those that it answers to"};
    }
  } else if (name != "127.0.0.1" && name != "localhost" && name != "[::1]") {
    return {421,
            "the page is at 127.0.0.1, localhost or [::1]; open the address that lockstep printed"};
  }
  const std::string* origin = request.Header("origin");
  if (origin != nullptr && *origin != "http://" + *host && *origin != "https://" + *host) {
    return {403, kOthersMayNotAsk};
  }
  const std::string* site = request.Header("sec-fetch-site");
  if (site == nullptr || *site == "same-origin" || *site == "none") return {};
  const std::string* mode = request.Header("sec-fetch-mode");
  const std::string* into = request.Header("sec-fetch-dest");
  const bool follows_link = request.path == "/" && mode != nullptr && *mode == "navigate" &&
                            into != nullptr && *into == "document";
  if (follows_link) return {};
  return {403, kOthersMayNotAsk};
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

PageServer::PageServer(EventLoop* loop, PageFile page, Public rules, Find find)
    : loop_(loop),
      page_(page),
      public_(std::move(rules)),
      find_(std::move(find)),
      http_(loop, {.max_connections = kMostPublic},
            [this](const HttpRequest& request, HttpResponder respond) {
              Serve(request, std::move(respond));
            }) {}

PageServer::PageServer(EventLoop* loop, PageFile page, Handlers handlers)
    : PageServer(loop, page, [handlers = std::move(handlers)](const Subject& subject) {
        return subject.job.empty() ? &handlers : nullptr;
      }) {}

PageServer::~PageServer() {
  for (const Waiting& waiting : waiting_) loop_->CancelTimer(waiting.timer);
}

Status PageServer::Listen(uint16_t port) {
  const Result<Endpoint> endpoint = MakeEndpoint("127.0.0.1", port);
  if (!endpoint.ok()) return endpoint.error();
  return http_.Listen(*endpoint);
}

Status PageServer::Listen(const std::string& address) { return ListenOn(&http_, address); }

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
  const Refusal refusal = RefusalOf(request, public_ ? public_->hosts : std::vector<std::string>());
  if (refusal.status != 0) {
    return respond.Send(Refuse(refusal.status, refusal.reason));
  }
  if (request.method != "GET" && request.method != "HEAD") {
    return respond.Send(Refuse(405, "only GET is supported"));
  }
  if (request.path == "/") return ServeHtml(request, std::move(respond));
  if (public_) return ServeViewer(request, std::move(respond));
  if (!SameSecret(TokenOf(request), token_)) {
    return respond.Send(Refuse(401, "open the address that lockstep printed: it holds the token"));
  }
  ServeData(request, "", std::move(respond));
}

void PageServer::ServeViewer(const HttpRequest& request, HttpResponder respond) {
  const std::string token = TokenOf(request);
  if (token.empty()) return respond.Send(Refuse(401, "the page needs a token", true));
  public_->judge(token, public_->forwarded ? SourceOf(request) : "",
                 lifetime_.Guard([this, request, respond](Result<std::string> viewer) mutable {
                   if (viewer.ok()) return ServeData(request, *viewer, std::move(respond));
                   const bool denied = viewer.error().kind == ErrorKind::kDenied;
                   respond.Send(Refuse(denied ? 401 : 503, viewer.error().message, denied));
                 }));
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

void PageServer::ServeData(const HttpRequest& request, const std::string& viewer,
                           HttpResponder respond) {
  const Subject subject{viewer, Parameter(request, "namespace"), Parameter(request, "job")};
  const bool plain = subject.job.size() + subject.name_space.size() <= kMostOfJob;
  DropGone();
  const Result<const Handlers*> found = plain ? find_(subject) : nullptr;
  if (!found.ok()) return Send(std::move(respond), false, found.error());
  const Handlers* handlers = *found;
  if (handlers == nullptr) return respond.Send(Refuse(404, kNoSuchJob));
  if (request.path == "/api/view") {
    return ServeView(request, subject, *handlers, std::move(respond));
  }
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

void PageServer::ServeView(const HttpRequest& request, const Subject& subject,
                           const Handlers& handlers, HttpResponder respond) {
  const auto after = NumberOf<uint64_t>(request, "after");
  const std::string page = Parameter(request, "id");
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
  Waiting waiting{std::move(respond), subject, page, after->value_or(0), 0};
  // A page of an earlier run may know more than there is.
  const uint64_t version = handlers.version();
  if (version != 0 && waiting.after != version) return SendView(std::move(waiting));
  if (public_) MakeRoom(subject.viewer);
  waiting_.push_back(std::move(waiting));
  const auto place = std::prev(waiting_.end());
  place->timer =
      loop_->StartTimer(loop_->now() + kPatience, [this, place] { SendView(Take(place)); });
}

PageServer::Waiting PageServer::Take(Place place) {
  loop_->CancelTimer(place->timer);
  Waiting waiting = std::move(*place);
  waiting_.erase(place);
  return waiting;
}

void PageServer::MakeRoom(const std::string& viewer) {
  const auto of_viewer = [&](const Waiting& each) { return each.subject.viewer == viewer; };
  if (static_cast<size_t>(std::ranges::count_if(waiting_, of_viewer)) < kMostPolls) return;
  SendView(Take(std::ranges::find_if(waiting_, of_viewer)));
}

void PageServer::DropGone() {
  std::vector<Subject> left;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto each = it++;
    if (each->respond.gone()) left.push_back(Take(each).subject);
  }
  for (const Subject& subject : left) {
    const bool other = std::ranges::any_of(waiting_, [&](const Waiting& each) {
      return each.subject.viewer == subject.viewer &&
             each.subject.name_space == subject.name_space && each.subject.job == subject.job;
    });
    if (!other) (void)find_(With(subject, Visit::kLeave));
  }
}

void PageServer::SendView(Waiting waiting) {
  if (waiting.respond.gone()) return;
  const Result<const Handlers*> found = find_(With(waiting.subject, Visit::kLook));
  if (!found.ok()) return Send(std::move(waiting.respond), false, found.error());
  const Handlers* handlers = *found;
  if (handlers == nullptr) return waiting.respond.Send(Refuse(404, kNoSuchJob));
  if (handlers->version() == 0) {
    return waiting.respond.Send(Refuse(503, "nothing is known yet"));
  }
  if (const auto page = pages_.find(waiting.page); page != pages_.end()) {
    page->second = {loop_->now(), handlers->version()};
  }
  // Every browser takes gzip; it is used for large views alone.
  Send(std::move(waiting.respond), true, handlers->view(waiting.after));
}

void PageServer::Notify() {
  if (waiting_.empty() || notifying_) return;
  notifying_ = true;
  loop_->Post(lifetime_.Guard([this] {
    notifying_ = false;
    DropGone();
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const auto each = it++;
      const Result<const Handlers*> found = find_(With(each->subject, Visit::kLook));
      const Handlers* handlers = found.ok() ? *found : nullptr;
      const uint64_t version = handlers == nullptr ? 0 : handlers->version();
      const bool waits = handlers != nullptr && (version == 0 || each->after == version);
      if (!waits) SendView(Take(each));
    }
  }));
}

bool PageServer::Owes() const {
  const Result<const Handlers*> found = find_({.visit = Visit::kLook});
  const Handlers* handlers = found.ok() ? *found : nullptr;
  const uint64_t version = handlers == nullptr ? 0 : handlers->version();
  const Time now = BootTime();
  const bool late = std::ranges::any_of(pages_, [&](const auto& entry) {
    return entry.second.had != version && now - entry.second.asked < kWatching;
  });
  const bool waits =
      std::ranges::any_of(waiting_, [](const Waiting& waiting) { return !waiting.respond.gone(); });
  return late || waits || !http_.sent();
}

std::string SourceOf(const HttpRequest& request) {
  std::string text;
  for (const auto& [name, value] : request.headers) {
    if (name == "x-forwarded-for") text = value.substr(value.rfind(',') + 1);  // npos + 1 is 0
  }
  std::erase_if(text, [](char c) { return c == ' ' || c == '\t'; });
  if (text.starts_with('[')) {
    text = text.substr(1, text.find(']') - 1);
  } else if (std::ranges::count(text, ':') == 1) {
    text.resize(text.find(':'));
  }
  std::array<unsigned char, sizeof(in6_addr)> address{};
  if (inet_pton(AF_INET, text.c_str(), address.data()) == 1) return text;
  if (inet_pton(AF_INET6, text.c_str(), address.data()) != 1) return "";
  std::array<char, INET6_ADDRSTRLEN> network{};
  // An IPv4 address, as a socket of both kinds or a translating network (RFC 6052) writes it.
  constexpr std::array<std::array<unsigned char, 12>, 2> kOfIpv4{
      {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, {0, 0x64, 0xff, 0x9b}}};
  if (std::ranges::any_of(kOfIpv4, [&](const auto& prefix) {
        return std::equal(prefix.begin(), prefix.end(), address.begin());
      })) {
    inet_ntop(AF_INET, address.data() + 12, network.data(), network.size());
    return network.data();
  }
  std::fill(address.begin() + 8, address.end(), 0);
  inet_ntop(AF_INET6, address.data(), network.data(), network.size());
  return network.data();
}

}  // namespace lockstep::cli
