// PageServer: serves the page of one gang, or of many. Read only. On a loopback port a request
// needs the server's own token. A public server has a name, and somebody else judges each token.
//
//   PageServer server(loop, {.html = ..., .csp = ...}, {.version = ..., .view = ...});
//   if (Status status = server.Listen(0); !status.ok()) ...
//   Say(server.address());                        // "http://127.0.0.1:PORT/#TOKEN"
//   server.Notify();                              // when version() has changed
//
// Rules, in this order (docs/internals/page.md has the codes):
//   1. Host names this computer, or the public server: a name that was rebound to its address is
//      refused, with the token too.
//   2. No page of another origin may ask, but a link to `/` may be followed.
//   3. GET and HEAD alone.
//   4. All but `/`, which holds no data, need a token. That of a loopback port is 192 random bits,
//      compared in constant time; in the address it is the fragment, which browsers never send.
//
// Bounded: kMostConnections (kMostPublic). A browser that leaves more than 2 MiB of answers unread
// is cut off. kMostPolls requests of one viewer of a public server wait for a change. When one more
// comes, the oldest gets the present view. Nothing waits for a browser. One thread.
#ifndef LOCKSTEP_CLI_UI_PAGE_SERVER_H_
#define LOCKSTEP_CLI_UI_PAGE_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/http/http_server.h"
#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/result.h"
#include "base/time.h"
#include "cli/ui/page_file.h"

namespace lockstep::cli {

class PageServer {
 public:
  static constexpr size_t kMostConnections = 64;
  static constexpr size_t kMostPublic = 256;
  static constexpr Duration kPatience = seconds(20);  // of a long poll
  static constexpr Duration kWatching = seconds(3);   // since a page asked last
  static constexpr size_t kMostPages = 64;            // that are told apart
  static constexpr size_t kMostPolls = 8;             // of a public server's viewer
  // For so long after it was asked for last, a view counts as shown by somebody.
  static constexpr Duration kShown = kPatience + seconds(5);

  using Answer = std::function<void(Result<std::string>)>;
  // JSON each. An error's kind makes the code: Invalid 400, NotFound 404, others 503. Version 0:
  // the view is not known yet, and a page that asks for it waits.
  struct Handlers {
    std::function<uint64_t()> version;
    std::function<std::string(uint64_t after)> view;
    std::function<void(std::optional<uint32_t> rank, uint64_t after, Answer)> log;
    std::function<void(std::optional<uint32_t> rank, Answer)> stacks;
    std::function<Result<std::string>(uint32_t machine)> topology;
  };
  enum class Visit {
    kAsk,    // somebody asks: the view is made if there is none
    kLook,   // nothing is made, and the view counts as shown no longer than before
    kLeave,  // nobody shows it any more
  };
  // What a request is about.
  struct Subject {
    std::string viewer{};      // as `judge` calls them; "" on a loopback port
    std::string name_space{};  // ?namespace=; "": none is named
    std::string job{};         // ?job=; "": none is named
    Visit visit = Visit::kAsk;
  };
  // Null: there is no such page. They live until the next call of Find at least.
  using Find = std::function<Result<const Handlers*>(const Subject& subject)>;

  // Who may ask a public server.
  struct Public {
    std::vector<std::string> hosts;  // its names, in lower case
    // Calls back once, now or later, with what Find calls the viewer who has this token. Denied:
    // 401; another error: 503. `source`: as SourceOf, if `forwarded`; else "".
    std::function<void(const std::string& token, const std::string& source, Answer)> judge;
    // A proxy in front writes each client's address as the last of X-Forwarded-For.
    bool forwarded = false;
  };

  // `page` must outlive this.
  PageServer(EventLoop* loop, PageFile page, Find find);
  PageServer(EventLoop* loop, PageFile page, Public rules, Find find);
  // The page of one run, for requests that name no job.
  PageServer(EventLoop* loop, PageFile page, Handlers handlers);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  // On 127.0.0.1; 0: a free port. Conflict when it is taken.
  Status Listen(uint16_t port);
  // "IP:PORT" or "PORT", as ListenOn.
  Status Listen(const std::string& address);
  // Listens, prints the address on standard error, and runs the loop until it is stopped.
  Status ServeUntilStopped(uint16_t port);
  std::string address() const;
  const std::string& token() const { return token_; }
  uint16_t port() const { return http_.endpoint().port(); }

  // A version has changed: answers those that wait for it, at the end of this round.
  void Notify();
  // Whether a page that asked lately has yet to get the version that stands, or to read it.
  bool Owes() const;

 private:
  struct Waiting {
    HttpResponder respond;
    Subject subject;
    std::string page;
    uint64_t after = 0;
    TimerId timer = 0;
  };
  // A browser's page that asks for the view.
  struct Page {
    Time asked{};
    uint64_t had = 0;
  };

  void Serve(const HttpRequest& request, HttpResponder respond);
  void ServeHtml(const HttpRequest& request, HttpResponder respond) const;
  void ServeViewer(const HttpRequest& request, HttpResponder respond);
  void ServeData(const HttpRequest& request, const std::string& viewer, HttpResponder respond);
  void ServeView(const HttpRequest& request, const Subject& subject, const Handlers& handlers,
                 HttpResponder respond);
  void SendView(Waiting waiting);
  using Place = std::list<Waiting>::iterator;
  Waiting Take(Place place);
  // Polls whose browser has hung up.
  void DropGone();
  // For one more poll of this viewer.
  void MakeRoom(const std::string& viewer);

  EventLoop* loop_;
  PageFile page_;
  std::optional<Public> public_;
  Find find_;
  std::string token_;
  HttpServer http_;
  std::list<Waiting> waiting_;
  std::map<std::string, Page> pages_;  // by the word that each chose
  bool notifying_ = false;
  Lifetime lifetime_;
};

// From now on a signal that asks for the end stops the loop. To be called before other threads
// begin: one of them would take the signal, and end the process.
void StopOnSignals(EventLoop* loop);

// Where a client is, as the proxy in front says: the last address of X-Forwarded-For without its
// port, of IPv6 the first 64 bits; "": it says none. Pure.
std::string SourceOf(const HttpRequest& request);

// Which of the rules 1 and 2 a request breaks: 421 or 403 and why; 0 with none. `hosts`: the names
// of a public server; none: it is on a loopback port. Pure.
struct Refusal {
  int status = 0;
  std::string_view reason;
};
Refusal RefusalOf(const HttpRequest& request, const std::vector<std::string>& hosts = {});

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_UI_PAGE_SERVER_H_
