#include "worker/agent/storage/object_store.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iterator>
#include <string_view>
#include <utility>
#include <variant>

#include "base/read_until.h"
#include "core/plan/agent_config.h"

namespace lockstep::agent {

namespace {

constexpr size_t kMaxAnswer = size_t{64} << 20;
// The program gives up so long before the agent does, and then says what it was about.
constexpr Duration kLastWords = seconds(5);
constexpr std::chrono::milliseconds kLook{100};

Error Closed() { return Error::Unavailable("the agent is leaving"); }

void Kill(const SpawnedProcess& process) {
  syscall(SYS_pidfd_send_signal, process.pidfd.get(), SIGKILL, nullptr, 0);
}

Error ErrorOf(const Json& error) {
  const std::string kind = error.value("kind", "");
  const std::string message = error.value("message", "");
  if (kind == "conflict") return Error::Conflict(message);
  if (kind == "missing") return Error::NotFound(message);
  if (kind == "invalid" || kind == "damaged") return Error::Invalid(message);
  return Error::Unavailable(message);
}

}  // namespace

std::string FindS3Program() {
  const Result<std::string> own = OwnProgram();
  std::string beside = (own.ok() ? std::filesystem::path(*own).parent_path() / kS3Program
                                 : std::filesystem::path(kS3Program))
                           .string();
  if (access(beside.c_str(), X_OK) == 0) return beside;
  const char* path = std::getenv("PATH");
  auto found = FindExecutable(kS3Program, path == nullptr ? "" : path, "");
  const auto* file = std::get_if<std::string>(&found);
  return file != nullptr ? *file : beside;
}

std::vector<std::string> TakeStoreVariables() {
  std::vector<std::string> taken;
  for (const std::string& entry : OwnEnvironment()) {
    const size_t equals = entry.find('=');
    if (!entry.starts_with(core::kStorePrefix) || equals == std::string::npos) continue;
    unsetenv(entry.substr(0, equals).c_str());
    if (equals > core::kStorePrefix.size())
      taken.push_back(entry.substr(core::kStorePrefix.size()));
  }
  return taken;
}

std::vector<std::string> StoreEnvironment(std::vector<std::string> own,
                                          const std::vector<std::string>& store) {
  static constexpr auto kCredentials = std::to_array<std::string_view>(
      {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"});
  const auto name = [](const std::string& entry) {
    return std::string_view(entry).substr(0, entry.find('='));
  };
  const auto is_credential = [&](const std::string& entry) {
    return std::ranges::find(kCredentials, name(entry)) != kCredentials.end();
  };
  const bool brings_credentials = std::ranges::any_of(store, is_credential);
  std::erase_if(own, [&](const std::string& entry) {
    return (brings_credentials && is_credential(entry)) ||
           std::ranges::find(store, name(entry), name) != store.end();
  });
  own.insert(own.end(), store.begin(), store.end());
  return own;
}

ObjectStore::ObjectStore(EventLoop* loop, Spawner* spawner, std::string program, std::string url,
                         std::vector<std::string> variables, Handlers handlers)
    : loop_(loop),
      spawner_(spawner),
      program_(std::move(program)),
      url_(std::move(url)),
      variables_(std::move(variables)),
      handlers_(std::move(handlers)) {}

Result<Json> ObjectStore::Run(std::vector<std::string> arguments, Duration patience) {
  const auto limit = std::max(seconds(1), duration_cast<seconds>(patience - kLastWords));
  std::vector<std::string> all = {kS3Program, "--url=" + url_,
                                  "--timeout=" + std::to_string(limit.count()) + "s"};
  std::ranges::move(arguments, std::back_inserter(all));
  // A process dies with the thread that started it, so the loop's thread does.
  auto started = std::make_shared<std::promise<Result<Process>>>();
  std::future<Result<Process>> answer = started->get_future();
  loop_->PostFromAnyThread(
      lifetime_.Guard([this, started, all = std::move(all)] { started->set_value(Start(all)); }));
  while (answer.wait_for(kLook) != std::future_status::ready) {
    if (closed_) return Closed();
  }
  Result<Process> process = answer.get();
  if (!process.ok()) return process.error();
  bool ended = false;
  const std::string text =
      ReadUntil((*process)->stdout_fd.get(), BootTime() + patience, kMaxAnswer, &ended);
  Kill(**process);  // it has ended, or its time is up
  const pid_t pid = (*process)->pid;
  if (closed_) return Closed();
  loop_->PostFromAnyThread(lifetime_.Guard([this, pid] { End(pid); }));
  const Json json = ParseJson(text);
  if (!ended || !json.is_object()) {
    return Error::Unavailable(std::string(kS3Program) + " gave no answer" +
                              (ended ? "" : " in time") + "; see the agent's log");
  }
  if (json.contains("error")) return ErrorOf(json["error"]);
  return json;
}

Result<ObjectStore::Process> ObjectStore::Start(const std::vector<std::string>& arguments) {
  if (closed_) return Closed();
  SpawnRequest request;
  request.path = program_;
  request.argv = arguments;
  request.env = StoreEnvironment(OwnEnvironment(), variables_);
  request.capture_stderr = false;
  SpawnResult result = spawner_->Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    const std::string what = program_ + ": " + failure->message;
    if (!failure->not_found()) return Error::Unavailable(what);
    return Error::Invalid(what +
                          "; an object store needs this program beside the agent or in PATH");
  }
  auto process = std::make_shared<SpawnedProcess>(std::move(std::get<SpawnedProcess>(result)));
  handlers_.leave_out(process->pid);
  running_[process->pid] = process;
  return process;
}

void ObjectStore::End(pid_t pid) {
  if (running_.erase(pid) > 0) handlers_.take_in(pid);
}

void ObjectStore::Close() {
  closed_ = true;
  for (const auto& [pid, process] : running_) Kill(*process);
}

}  // namespace lockstep::agent
