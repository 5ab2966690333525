#include "worker/agent/rank_socket/launcher_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "base/process/process.h"
#include "base/unique_fd.h"
#include "core/model/names.h"
#include "core/plan/launcher.h"
#include "worker/agent/rank_socket/remote_shell.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

Status Write(const std::string& path, const std::string& text, mode_t mode) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.valid()) return ErrnoError("making " + path, errno);
  return WriteAll(fd.get(), text, path);
}

}  // namespace

Result<std::string> MakeLauncherFolder(const std::string& run_dir, core::Generation generation,
                                       const core::TrainingJob& job, const std::string& program,
                                       const std::string& socket) {
  const fs::path base = fs::path(run_dir) / "mpi";
  const std::string folder = base / generation.ToString();
  std::error_code error;
  fs::remove_all(base, error);
  if (!error) fs::create_directories(folder, error);
  if (error) return Error::Unavailable(folder + ": " + error.message());
  std::string hosts;
  std::string hydra;
  const std::string slots = std::to_string(job.spec.processes_per_machine);
  for (int machine = 0; machine < job.spec.num_machines; ++machine) {
    const std::string name =
        machine == 0 ? OwnHostName() : core::HostName(job.metadata.name, machine);
    hosts.append(name).append(" slots=").append(slots).append("\n");
    hydra.append(name).append(":").append(slots).append("\n");
  }
  const std::string script =
      "#!/bin/sh\nexec " +
      core::ShellQuote({program, kRemoteShellArgument, socket, generation.ToString()}) +
      " \"$@\"\n";
  for (const Status& written :
       {Write(folder + "/hosts", hosts, 0600), Write(folder + "/hosts.hydra", hydra, 0600),
        Write(folder + "/rsh", script, 0700)}) {
    if (!written.ok()) return written.error();
  }
  return folder;
}

std::optional<uint32_t> MachineNamed(const core::TrainingJob& job, std::string_view host) {
  for (int machine = 1; machine < job.spec.num_machines; ++machine) {
    if (host == core::HostName(job.metadata.name, machine)) return static_cast<uint32_t>(machine);
  }
  return std::nullopt;
}

}  // namespace lockstep::agent
