#include <memory>
#include <string>
#include <utility>

#include "base/event_loop.h"
#include "base/file.h"
#include "base/stop_signals.h"
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
  std::string report;
  uint16_t port = 0;
  std::string html;
};

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
  PageServer::Handlers handlers;
  handlers.version = [] { return uint64_t{1}; };
  handlers.view = [&view](uint64_t /*after*/) { return view; };
  PageServer server(loop->get(), page, std::move(handlers));
  if (const Status served = server.Listen(port); !served.ok()) return Fail(served.error());
  for (const int signal : lockstep::kStopSignals) {  // not those of bench.cc
    (*loop)->OnSignal(signal, [&loop] { (*loop)->Stop(); });
  }
  Say("the page: " + server.address() + "; Ctrl-C ends it");
  (*loop)->Run();
  return core::kExitSuccess;
}

int Ui(const UiOptions& options) {
  const std::optional<PageFile> page = EmbeddedPage();
  if (!page) return Fail(Error::Unavailable(kNoPage));
  const Result<std::string> view = ReadView(options.report);
  if (!view.ok()) return Fail(view.error());
  return options.html.empty() ? ServeView(options.port, *page, *view)
                              : WriteHtml(options.html, *page, *view);
}

}  // namespace

void AddUi(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<UiOptions>();
  CLI::App* command =
      app.add_subcommand("ui", "Show the page of a run that has ended, from its report");
  command->add_option("REPORT", options->report, "A report that `lockstep run --report` wrote")
      ->required()
      ->type_name("FILE");
  CLI::Option* port = command->add_option("--port", options->port,
                                          "Serve the page on this port of 127.0.0.1; default: a "
                                          "free one");
  command
      ->add_option("--html", options->html,
                   "Write the page with its data to this file, which opens without a server")
      ->type_name("FILE")
      ->excludes(port);
  command->footer(
      "Examples:\n"
      "  lockstep ui run.json\n"
      "  lockstep ui run.json --html run.html\n"
      "\n"
      "`lockstep run --ui` shows a run while it lasts.\n"
      "Exit codes: 0 shown; 1 the page or file cannot be written or served; 2 the report isn't "
      "valid.");
  command->callback([options, invocation] { invocation->exit_code = Ui(*options); });
}

}  // namespace lockstep::cli
