#include "cli/cluster/connection.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "base/version.h"
#include "cli/say.h"
#include "core/exit_codes.h"
#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxMessage = 2048;

// A person waits, so an unreachable API server is reported soon.
kube::ClientOptions MakeClientOptions() {
  kube::ClientOptions options;
  options.timeout = seconds(20);
  options.attempts = 3;
  return options;
}

const char* Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Of $KUBECONFIG, which may name several.
Result<std::vector<std::string>> FilesThatExist(const std::string& list) {
  std::vector<std::string> files;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ':');) {
    std::error_code error;
    if (!name.empty() && fs::exists(name, error)) files.push_back(name);
  }
  if (files.empty()) return Error::NotFound("$KUBECONFIG names no file that exists: " + list);
  return files;
}

Result<std::string> FindKubeconfig(const ClusterAddress& where) {
  if (!where.kubeconfig.empty()) return where.kubeconfig;
  const std::string list = Variable("KUBECONFIG");
  if (!list.empty()) {
    Result<std::vector<std::string>> files = FilesThatExist(list);
    if (!files.ok()) return files.error();
    if (files->size() == 1) return files->front();
    return Error::Invalid(
        "$KUBECONFIG names several files, and lockstep reads one: merge them with `kubectl config "
        "view --flatten`, or name one with --kubeconfig");
  }
  const fs::path file = fs::path(Variable("HOME")) / ".kube" / "config";
  std::error_code error;
  if (fs::exists(file, error)) return file.string();
  return Error::NotFound("no cluster: there is no --kubeconfig, no $KUBECONFIG and no " +
                         file.string());
}

}  // namespace

Result<kube::ClientConfig> FindCluster(const ClusterAddress& where) {
  Result<std::string> file = FindKubeconfig(where);
  Result<kube::ClientConfig> config = Error::NotFound("");
  if (file.ok()) {
    config = kube::LoadKubeconfig(*file, where.context);
    // The exit code for NotFound speaks of jobs.
    if (!config.ok()) return Error::Unavailable(config.error().message);
  } else {
    config = kube::LoadInCluster();
    if (!config.ok()) return Error::Unavailable(file.error().message);
  }
  if (!where.name_space.empty()) config->default_namespace = where.name_space;
  return config;
}

Error Explain(const kube::ApiError& error, std::string_view doing, std::string_view server) {
  const std::string said = core::FirstBytes(error.message, kMaxMessage);
  const std::string cannot = "cannot " + std::string(doing) + ": ";
  switch (error.kind) {
    case kube::ApiErrorKind::kNotFound:
      // The server gives a reason for a missing object, but none for an unknown type.
      if (error.reason.empty() || said == "the server could not find the requested resource") {
        return Error::NotFound(
            cannot + std::string(server) +
            " does not know TrainingJobs: install Lockstep there first (kubectl apply "
            "-f crds/)");
      }
      return Error::NotFound(cannot + said);
    case kube::ApiErrorKind::kAlreadyExists:
    case kube::ApiErrorKind::kConflict:
      return Error::Conflict(cannot + said);
    case kube::ApiErrorKind::kInvalid:
      return Error::Invalid(cannot + said);
    case kube::ApiErrorKind::kForbidden:
      return Error::Denied(cannot + "not allowed: " + said);
    case kube::ApiErrorKind::kUnauthorized:
      return Error::Denied(cannot + std::string(server) +
                           " does not accept the credentials of this context: " + said);
    case kube::ApiErrorKind::kTransport:
    case kube::ApiErrorKind::kTimeout:
      return Error::Unavailable(
          cannot + "no answer from " + std::string(server) + ": " + said +
          (error.ambiguous ? "; the change may have been made: check before you try again" : ""));
    default:
      return Error::Unavailable(cannot + said);
  }
}

int ExitCodeOf(const Error& error) {
  if (error.kind == ErrorKind::kNotFound) return core::kExitNotFound;
  return error.kind == ErrorKind::kInvalid ? core::kExitUsage : core::kExitTrouble;
}

int Fail(const Error& error) {
  Say(error.message);
  return ExitCodeOf(error);
}

Result<std::unique_ptr<Connection>> Connection::Open(const ClusterAddress& where) {
  Result<kube::ClientConfig> config = FindCluster(where);
  if (!config.ok()) return config.error();
  return Open(std::move(*config));
}

Result<std::unique_ptr<Connection>> Connection::Open(kube::ClientConfig config) {
  std::unique_ptr<Connection> made(new Connection(std::move(config)));
  Result<std::unique_ptr<kube::Transport>> transport = made->OpenTransport();
  if (!transport.ok()) return transport.error();
  made->client_ = std::make_unique<kube::Client>(std::move(*transport), MakeClientOptions());
  return made;
}

Result<std::unique_ptr<kube::Transport>> Connection::OpenTransport() const {
  kube::TransportOptions options;
  options.connections = 2;
  options.user_agent = std::string("kubectl-lockstep/") + kVersion;
  Result<std::unique_ptr<kube::Transport>> made = kube::MakeTransport(config_, options);
  if (!made.ok()) return Error::Unavailable(made.error().message);
  return made;
}

Result<std::string> Connection::Get(std::string path, std::string_view doing) {
  kube::Request request;
  request.path = std::move(path);
  return Call(std::move(request), doing);
}

Result<std::string> Connection::Call(kube::Request request, std::string_view doing) {
  kube::ApiResult<std::string> answer = client_->CallAndWait(std::move(request));
  if (!answer.ok()) return Explain(answer.error(), doing, config_.server);
  return std::move(*answer);
}

}  // namespace lockstep::cli
