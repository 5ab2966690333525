#include "operator/kube/config/credentials_exec.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "base/process/process.h"
#include "base/text/duration.h"
#include "base/text/json.h"
#include "base/time.h"
#include "base/unique_fd.h"

extern char** environ;

namespace lockstep::kube {
namespace {

constexpr const char* kPath = "/usr/local/bin:/usr/bin:/bin";  // where none is set

// One run of a program: its own process group, stdout in a pipe, nothing on stdin.
class Run {
 public:
  explicit Run(const ClientConfig& config) : config_(config), plugin_(*config.exec) {}
  ~Run() {
    if (process_.pid < 0) return;
    kill(-process_.pid, SIGKILL);
    while (waitpid(process_.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Status Start();
  // All it prints, once it has ended well.
  Result<std::string> Output(int stop);

 private:
  Error Failed(const std::string& why) const {
    std::string hint = plugin_.install_hint.empty() ? "" : "\n" + plugin_.install_hint;
    return Error::Denied("the credential plugin " + plugin_.command.front() + " " + why + hint);
  }
  std::vector<std::string> Environment() const;
  // Until `fd` is readable.
  Status Wait(int fd, int stop) const;
  Result<int> ExitCode(int stop);

  const ClientConfig& config_;
  const ExecPlugin& plugin_;
  const Time deadline_ = BootTime() + plugin_.timeout;
  SpawnedProcess process_;
};

std::vector<std::string> Run::Environment() const {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string text = *entry;
    size_t equals = text.find('=');
    if (equals != std::string::npos) all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : plugin_.env) all[name] = value;
  Json info = {{"apiVersion", plugin_.api_version},
               {"kind", "ExecCredential"},
               {"spec", {{"interactive", false}}}};
  if (plugin_.provide_cluster_info) info["spec"]["cluster"] = {{"server", config_.server}};
  all["KUBERNETES_EXEC_INFO"] = DumpJson(info);
  std::vector<std::string> environment;
  environment.reserve(all.size());
  for (const auto& [name, value] : all) environment.emplace_back(name).append("=").append(value);
  return environment;
}

Status Run::Start() {
  const Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  if (!spawner.ok()) return spawner.error();
  const char* path = std::getenv("PATH");
  const auto file = FindExecutable(plugin_.command.front(), path != nullptr ? path : kPath, "");
  if (const auto* failure = std::get_if<SpawnFailure>(&file)) return Failed(failure->message);
  SpawnRequest request;
  request.path = std::get<std::string>(file);
  request.argv = plugin_.command;
  request.env = Environment();
  request.capture_stderr = false;
  SpawnResult result = (*spawner)->Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) return Failed(failure->message);
  process_ = std::move(std::get<SpawnedProcess>(result));
  return {};
}

Status Run::Wait(int fd, int stop) const {
  for (;;) {
    Duration left = deadline_ - BootTime();
    if (left <= Duration(0)) {
      return Failed("had not ended after " + FormatDuration(plugin_.timeout));
    }
    pollfd waited[] = {{fd, POLLIN, 0}, {stop, POLLIN, 0}};
    auto milliseconds_left = std::chrono::ceil<milliseconds>(std::min<Duration>(left, hours(1)));
    int ready = poll(waited, 2, static_cast<int>(milliseconds_left.count()));
    if (ready < 0 && errno != EINTR) return ErrnoError("poll", errno);
    if (ready > 0 && waited[1].revents != 0) return Failed("was stopped");
    if (ready > 0 && waited[0].revents != 0) return {};
  }
}

Result<std::string> Run::Output(int stop) {
  std::string text;
  char buffer[4096];
  for (;;) {
    if (Status status = Wait(process_.stdout_fd.get(), stop); !status.ok()) return status.error();
    ssize_t got = read(process_.stdout_fd.get(), buffer, sizeof(buffer));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return ErrnoError("read", errno);
    if (got == 0) break;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMaxCredential) return Failed("printed more than 128 KiB");
  }
  Result<int> code = ExitCode(stop);
  if (!code.ok()) return code.error();
  if (*code != 0) return Failed("ended with exit code " + std::to_string(*code));
  return text;
}

Result<int> Run::ExitCode(int stop) {
  if (Status status = Wait(process_.pidfd.get(), stop); !status.ok()) return status.error();
  int status = 0;
  while (waitpid(process_.pid, &status, 0) < 0 && errno == EINTR) {
  }
  kill(-process_.pid, SIGKILL);  // its remaining children
  process_.pid = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string TextOf(const Json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

Result<ExecCredential> ParseExecCredential(const std::string& text) {
  Json document = ParseJson(text);
  if (!document.is_object() || TextOf(document, "kind") != "ExecCredential" ||
      !document.contains("status") || !document["status"].is_object()) {
    return Error::Denied("the credential plugin printed no ExecCredential with a status");
  }
  const Json& status = document["status"];
  ExecCredential credential{TextOf(status, "token"),
                            TextOf(status, "clientCertificateData"),
                            TextOf(status, "clientKeyData"),
                            {}};
  if (credential.certificate.empty() != credential.key.empty()) {
    return Error::Denied(
        "the credential plugin printed a certificate without its key or a key "
        "without its certificate");
  }
  if (credential.token.empty() && credential.certificate.empty()) {
    return Error::Denied("the credential plugin printed neither a token nor a certificate");
  }
  if (std::string expires = TextOf(status, "expirationTimestamp"); !expires.empty()) {
    Result<WallTime> time = ParseWallTime(expires);
    if (!time.ok()) {
      return Error::Denied("the credential plugin's expirationTimestamp is not a time");
    }
    credential.expires = *time;
  }
  return credential;
}

Result<ExecCredential> RunExecPlugin(const ClientConfig& config, int stop) {
  Run run(config);
  if (Status status = run.Start(); !status.ok()) return status.error();
  Result<std::string> text = run.Output(stop);
  if (!text.ok()) return text.error();
  return ParseExecCredential(*text);
}

}  // namespace lockstep::kube
