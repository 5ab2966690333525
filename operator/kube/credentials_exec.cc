#include "operator/kube/credentials_exec.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/duration.h"
#include "base/time.h"
#include "base/unique_fd.h"

extern char** environ;

namespace lockstep::kube {
namespace {

using Json = nlohmann::json;

// One run of a program: its own process group, stdout in a pipe, nothing on stdin.
class Run {
 public:
  explicit Run(const ClientConfig& config) : config_(config), plugin_(*config.exec) {}
  ~Run() {
    if (pid_ < 0) return;
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
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
  UniqueFd output_;
  pid_t pid_ = -1;
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
  all["KUBERNETES_EXEC_INFO"] = info.dump();
  std::vector<std::string> environment;
  environment.reserve(all.size());
  for (const auto& [name, value] : all) environment.emplace_back(name).append("=").append(value);
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Status Run::Start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoError("pipe", errno);
  output_.reset(ends[0]);
  UniqueFd write_end(ends[1]);
  std::vector<std::string> arguments = plugin_.command;
  std::vector<std::string> environment = Environment();

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  int error = posix_spawnp(&pid_, arguments.front().c_str(), &actions, &attributes,
                           Pointers(arguments).data(), Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    pid_ = -1;
    return Failed(ErrnoError("cannot be started", error).message);
  }
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
    if (Status status = Wait(output_.get(), stop); !status.ok()) return status.error();
    ssize_t got = read(output_.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
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
  UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!process.valid()) return ErrnoError("pidfd_open", errno);
  if (Status status = Wait(process.get(), stop); !status.ok()) return status.error();
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  kill(-pid_, SIGKILL);  // what it left behind
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Text(const Json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

Result<ExecCredential> ParseExecCredential(const std::string& text) {
  Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || Text(document, "kind") != "ExecCredential" ||
      !document.contains("status") || !document["status"].is_object()) {
    return Error::Denied("the credential plugin printed no ExecCredential with a status");
  }
  const Json& status = document["status"];
  ExecCredential credential{Text(status, "token"),
                            Text(status, "clientCertificateData"),
                            Text(status, "clientKeyData"),
                            {}};
  if (credential.certificate.empty() != credential.key.empty()) {
    return Error::Denied(
        "the credential plugin printed a certificate without its key or a key "
        "without its certificate");
  }
  if (credential.token.empty() && credential.certificate.empty()) {
    return Error::Denied("the credential plugin printed neither a token nor a certificate");
  }
  if (std::string expires = Text(status, "expirationTimestamp"); !expires.empty()) {
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
