#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/loop/event_loop.h"
#include "base/text/ascii.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"
#include "cli/say.h"
#include "cli/ui/page_file.h"
#include "cli/ui/page_server.h"
#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMostOfReport = size_t{256} << 20;
constexpr int kKnownFormat = 1;
constexpr mode_t kOwnersAlone = 0600;  // a log may hold secrets

struct UiOptions {
  std::string what;  // a report, or a job on a cluster
  uint16_t port = 0;
  std::string html;
  std::string serve;
  std::string health;
  std::vector<std::string> hosts;
  UiCommand keeping;  // its options alone
};

bool NamesCluster(const ClusterAddress& where) {
  return !where.kubeconfig.empty() || !where.context.empty() || !where.name_space.empty();
}

// A job's name has no slash. Another word that is no file is meant as a job's, but for what looks
// like a report's.
bool IsReport(const std::string& word) {
  std::error_code error;
  if (word.empty()) return false;
  return word.find('/') != std::string::npos || word.ends_with(".json") ||
         std::filesystem::exists(word, error);
}

// The view of a report, as JSON.
Result<std::string> ReadView(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kMostOfReport);
  if (!text.ok()) return text.error();
  const OrderedJson report = ParseOrderedJson(*text);
  if (!report.is_object() || !report.contains("jobUID")) {
    return Error::Invalid(path +
                          " is not a report of lockstep; `lockstep run --report` writes one");
  }
  const auto view = report.find("view");
  if (view == report.end() || !view->is_object()) {
    return Error::Invalid(
        path +
        " has no view, because a lockstep before 0.2.0 wrote it; run the job with this version");
  }
  const auto format = view->find("format");
  if (format == view->end() || *format != kKnownFormat) {
    return Error::Invalid(path +
                          " has a view of another format; open it with the lockstep that wrote it");
  }
  return DumpJson(*view);
}

int Fail(const Error& error) {
  Say("ui: " + error.message);
  return error.kind == ErrorKind::kInvalid || error.kind == ErrorKind::kNotFound
             ? core::kExitUsage
             : core::kExitTrouble;
}

int WriteHtml(const std::string& path, const PageFile& page, const std::string& view) {
  Result<std::string> html = Decompress(page.html);
  if (!html.ok()) return Fail(html.error());
  const Result<std::string> saved = SavedPage(*std::move(html), view);
  if (!saved.ok()) return Fail(saved.error());
  const Status written = WriteFileAtomically(path, *saved, {.mode = kOwnersAlone});
  return written.ok() ? core::kExitSuccess : Fail(written.error());
}

// Until a signal asks for the end.
int ServeView(uint16_t port, const PageFile& page, const std::string& view) {
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return Fail(loop.error());
  StopOnSignals(loop->get());
  PageServer::Handlers handlers;
  handlers.version = [] { return uint64_t{1}; };
  handlers.view = [&view](uint64_t /*after*/) { return view; };
  PageServer server(loop->get(), page, std::move(handlers));
  const Status served = server.ServeUntilStopped(port);
  return served.ok() ? core::kExitSuccess : Fail(served.error());
}

int Ui(const UiOptions& options) {
  const std::optional<PageFile> page = EmbeddedPage();
  if (!page) return Fail(Error::Unavailable(kNoPage));
  const Result<std::string> view = ReadView(options.what);
  if (!view.ok()) return Fail(view.error());
  return options.html.empty() ? ServeView(options.port, *page, *view)
                              : WriteHtml(options.html, *page, *view);
}

}  // namespace

void AddUi(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<UiOptions>();
  CLI::App* command = app.add_subcommand(
      "ui", "Show the page of jobs on a cluster, or of a run that has ended, from its report");
  command
      ->add_option("NAME", options->what,
                   "A report that `lockstep run --report` wrote, else a TrainingJob; default: all "
                   "TrainingJobs that you may list")
      ->type_name("FILE|NAME");
  CLI::Option* port = command->add_option("--port", options->port,
                                          "Serve the page on this port of 127.0.0.1; default: a "
                                          "free one");
  command
      ->add_option("--html", options->html,
                   "Write the page of a report to this file, which opens without a server")
      ->type_name("FILE")
      ->excludes(port);
  CLI::Option* serve =
      command
          ->add_option("--serve", options->serve,
                       "Serve the page to many people on this port of all addresses, or on this "
                       "address; each logs in with a token of the cluster")
          ->type_name("PORT|IP:PORT")
          ->excludes(port);
  CLI::Option* host =
      command
          ->add_option("--host", options->hosts,
                       "A name by which browsers reach that server; more names: again")
          ->type_name("NAME")
          ->needs(serve);
  serve->needs(host);
  command
      ->add_option("--health", options->health,
                   "Answer probes of /healthz on this port, which the page's visitors cannot fill")
      ->type_name("PORT|IP:PORT")
      ->needs(serve);
  command
      ->add_flag("--forwarded-for", options->keeping.forwarded,
                 "The proxy in front of that server writes each client's address as the last of "
                 "X-Forwarded-For: one address with wrong tokens keeps no other from logging in")
      ->needs(serve);
  const char* group = "Pages of finished jobs";
  command
      ->add_option("--kept", options->keeping.kept,
                   "Show the pages in this folder, too; each if the API server lets its viewer get "
                   "TrainingJobs in the job's namespace")
      ->type_name("FOLDER")
      ->needs(serve)
      ->group(group);
  CLI::Option* keep =
      command
          ->add_option("--keep", options->keeping.keep,
                       "Serve nothing, and keep the page of each job that ends in this folder")
          ->type_name("FOLDER")
          ->excludes(serve)
          ->excludes(port)
          ->group(group);
  command
      ->add_option("--keep-namespace", options->keeping.keep_namespaces,
                   "Of jobs in this namespace; more of them: again; default: all")
      ->type_name("NAME")
      ->needs(keep)
      ->group(group);
  command
      ->add_option("--keep-jobs", options->keeping.keep_jobs,
                   "The newest jobs of each namespace that are kept; default: 100")
      ->check(CLI::Range(1, 10'000))
      ->needs(keep)
      ->group(group);
  command
      ->add_option("--keep-days", options->keeping.keep_days,
                   "Days after a job's end until its page is removed; default: 30")
      ->check(CLI::Range(1, 3650))
      ->needs(keep)
      ->group(group);
  const std::shared_ptr<ClusterAddress> where = AddClusterAddress(command);
  command->footer(
      "Examples:\n"
      "  lockstep ui run.json\n"
      "  lockstep ui run.json --html run.html\n"
      "  kubectl lockstep ui gpt -n team-a\n"
      "  kubectl lockstep ui                        all jobs that you may list\n"
      "  kubectl lockstep ui --serve 8080 --host lockstep.example.com\n"
      "\n"
      "`lockstep run --ui` shows a run while it lasts.\n"
      "Exit codes: 0 shown; 1 the page or file cannot be written or served, or the cluster cannot\n"
      "be reached; 2 the report isn't valid; 3 there is no such job.");
  command->callback([options, where, invocation] {
    if (!invocation->of_kubectl && !NamesCluster(*where) && IsReport(options->what)) {
      invocation->exit_code = Ui(*options);
    } else if (!options->html.empty()) {
      invocation->exit_code = Fail(Error::Invalid("--html needs a report, not a job's name"));
    } else if (!options->serve.empty() && !options->what.empty()) {
      invocation->exit_code = Fail(Error::Invalid("--serve shows all jobs: leave NAME out"));
    } else if (!options->keeping.keep.empty() && !options->what.empty()) {
      invocation->exit_code = Fail(Error::Invalid("--keep is for all jobs: leave NAME out"));
    } else {
      for (std::string& name : options->hosts) name = ToLower(name);
      UiCommand asked = options->keeping;
      asked.name = options->what;
      asked.port = options->port;
      asked.serve = options->serve;
      asked.health = options->health;
      asked.hosts = options->hosts;
      invocation->exit_code = invocation->on_cluster({*where, std::move(asked)});
    }
  });
}

}  // namespace lockstep::cli
