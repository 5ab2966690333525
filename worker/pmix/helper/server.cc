#include "worker/pmix/helper/server.h"

#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "core/gang/protocol/kvs_exchange.h"

namespace lockstep::pmix {
namespace {

constexpr size_t kMostFences = 64;                // that wait at once
constexpr size_t kMostAnswer = size_t{64} << 20;  // bytes of all machines, in a fence
constexpr size_t kMostAbortText = 1024;

Server* the_server = nullptr;  // whom the library's functions mean, which tell of no owner

Error Failed(const char* what, pmix_status_t status) {
  return Error::Internal(std::string(what) + ": " + PMIx_Error_string(status));
}

void Free(void* memory) { std::free(memory); }

// What it allocates with malloc: NAME=value, NULL at the end.
class Variables {
 public:
  ~Variables() {
    for (char** each = list_; each != nullptr && *each != nullptr; ++each) std::free(*each);
    std::free(static_cast<void*>(list_));
  }
  char*** list() { return &list_; }
  std::string Text() const {
    std::string text;
    for (char** each = list_; each != nullptr && *each != nullptr; ++each) {
      text.append(*each).push_back('\0');
    }
    return text;
  }

 private:
  char** list_ = nullptr;
};

// No code is waited for, and no event comes from another machine: a gang ends as a whole.
pmix_status_t RegisterEvents(pmix_status_t* /*codes*/, size_t /*count*/,
                             const pmix_info_t* /*info*/, size_t /*infos*/,
                             pmix_op_cbfunc_t /*answer*/, void* /*data*/) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t DeregisterEvents(pmix_status_t* /*codes*/, size_t /*count*/,
                               pmix_op_cbfunc_t /*answer*/, void* /*data*/) {
  return PMIX_OPERATION_SUCCEEDED;
}

}  // namespace

Server::Server(JobShape shape, Link* link)
    : shape_(std::move(shape)),
      link_(link),
      most_(shape_.processes * core::MostTableBytes(shape_.machines, shape_.processes)) {
  the_server = this;
}

Server::~Server() { the_server = nullptr; }

pmix_server_module_t Server::Module() {
  pmix_server_module_t module{};
  module.client_connected2 = &Server::Connected;
  module.client_finalized = &Server::Finalized;
  module.abort = &Server::Aborted;
  module.fence_nb = &Server::EnterFence;
  module.spawn = &Server::RefuseSpawn;
  module.register_events = &RegisterEvents;
  module.deregister_events = &DeregisterEvents;
  return module;
}

Status Server::Init() {
  // Debian's library would offer munge as well, which Open MPI's own may not have, and complains.
  setenv("PMIX_MCA_psec", "native", 1);
  InfoList info;
  for (const char* key : {PMIX_SERVER_TMPDIR, PMIX_SYSTEM_TMPDIR}) info.Add(key, shape_.folder);
  info.Add(PMIX_HOSTNAME, MachineName(shape_.machine));
  info.Add(PMIX_NODEID, shape_.machine);
  static pmix_server_module_t module = Module();  // the library keeps it
  const pmix_status_t status = PMIx_server_init(&module, info.data(), info.size());
  if (status != PMIX_SUCCESS) return Failed("PMIx_server_init", status);
  return {};
}

Status Server::Begin(const std::string& name) {
  if (!name_.empty()) return Error::Invalid("a second namespace");
  if (name.empty() || name.size() > PMIX_MAX_NSLEN) return Error::Invalid("a namespace's length");
  name_ = name;
  InfoList info;
  pmix_status_t status = DescribeJob(shape_, name, &info);
  if (status != PMIX_SUCCESS) return Failed("PMIx_generate_regex", status);
  status = PMIx_server_register_nspace(name.c_str(), static_cast<int>(shape_.processes),
                                       info.data(), info.size(), nullptr, nullptr);
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
    return Failed("PMIx_server_register_nspace", status);
  }
  std::vector<Message> told;
  for (uint32_t l = 0; l < shape_.processes; ++l) {
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, name.c_str(), shape_.machine * shape_.processes + l);
    status = PMIx_server_register_client(&proc, getuid(), getgid(), nullptr, nullptr, nullptr);
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
      return Failed("PMIx_server_register_client", status);
    }
    Variables variables;
    status = PMIx_server_setup_fork(&proc, variables.list());
    if (status != PMIX_SUCCESS) return Failed("PMIx_server_setup_fork", status);
    told.push_back({.kind = Kind::kVariables, .local_rank = l, .bytes = variables.Text()});
  }
  told.push_back({.kind = Kind::kReady});
  link_->Send(told);
  return {};
}

bool Server::IsOurs(const pmix_proc_t& proc) const {
  return proc.rank / shape_.processes == shape_.machine && name_ == proc.nspace;
}

void Server::Tell(Kind kind, const pmix_proc_t& proc, int code, std::string text) {
  if (!IsOurs(proc)) return;
  link_->Send({.kind = kind,
               .local_rank = proc.rank % shape_.processes,
               .code = code,
               .bytes = std::move(text)});
}

pmix_status_t Server::Connected(const pmix_proc_t* proc, void* /*object*/, pmix_info_t /*info*/[],
                                size_t /*count*/, pmix_op_cbfunc_t /*answer*/, void* /*data*/) {
  the_server->Tell(Kind::kConnected, *proc, 0, "");
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t Server::Finalized(const pmix_proc_t* proc, void* /*object*/,
                                pmix_op_cbfunc_t /*answer*/, void* /*data*/) {
  the_server->Tell(Kind::kFinalized, *proc, 0, "");
  return PMIX_OPERATION_SUCCEEDED;
}

// Whichever processes it names: all of a gang end together.
pmix_status_t Server::Aborted(const pmix_proc_t* proc, void* /*object*/, int status,
                              const char message[], pmix_proc_t /*procs*/[], size_t /*count*/,
                              pmix_op_cbfunc_t /*answer*/, void* /*data*/) {
  const std::string_view text = message == nullptr ? "" : message;
  the_server->Tell(Kind::kAbort, *proc, status, std::string(text.substr(0, kMostAbortText)));
  return PMIX_OPERATION_SUCCEEDED;
}

// The agent logs what stands on standard error. Of a communicator's ranks the one that asks hears
// of the refusal, and the others may wait for it without an end.
pmix_status_t Server::RefuseSpawn(const pmix_proc_t* proc, const pmix_info_t /*info*/[],
                                  size_t /*infos*/, const pmix_app_t /*apps*/[], size_t /*count*/,
                                  pmix_spawn_cbfunc_t /*answer*/, void* /*data*/) {
  if (!the_server->spawn_refused_.exchange(true)) {
    const std::string text =
        "rank " + std::to_string(proc->rank) +
        " called MPI_Comm_spawn, which mpi.start: Pmix refuses; other ranks of "
        "its communicator may wait for it without an end\n";
    std::fputs(text.c_str(), stderr);
  }
  return PMIX_ERR_NOT_SUPPORTED;
}

// All ranks of the job, named or by PMIX_RANK_WILDCARD.
bool Server::AreAll(const pmix_proc_t procs[], size_t count) const {
  if (count == 0) return false;
  std::vector<bool> named(size_t{shape_.machines} * shape_.processes);
  for (size_t i = 0; i < count; ++i) {
    if (name_ != procs[i].nspace) return false;
    if (procs[i].rank == PMIX_RANK_WILDCARD) return true;
    if (procs[i].rank < named.size()) named[procs[i].rank] = true;
  }
  return std::ranges::all_of(named, [](bool each) { return each; });
}

// The library calls this once all of this machine's ranks are in it.
pmix_status_t Server::EnterFence(const pmix_proc_t procs[], size_t count,
                                 const pmix_info_t /*info*/[], size_t /*infos*/, char* bytes,
                                 size_t size, pmix_modex_cbfunc_t answer, void* data) {
  if (!the_server->AreAll(procs, count)) return PMIX_ERR_NOT_SUPPORTED;
  return the_server->Queue({size > 0 ? std::string(bytes, size) : std::string(), answer, data});
}

pmix_status_t Server::Queue(Fence fence) {
  if (fence.data.size() > most_) return PMIX_ERR_OUT_OF_RESOURCE;
  std::vector<Message> parts;
  {
    const MutexLock lock(&mutex_);
    if (fences_.size() >= kMostFences) return PMIX_ERR_OUT_OF_RESOURCE;
    fences_.push_back(std::move(fence));
    if (fences_.size() == 1) parts = FenceParts(std::exchange(fences_.front().data, {}));
  }
  if (!parts.empty()) link_->Send(parts);
  return PMIX_SUCCESS;
}

Status Server::OnFence(const Message& part) {
  if (answer_.size() + part.bytes.size() > kMostAnswer) return Error::Invalid("too large a fence");
  answer_ += part.bytes;
  if (!part.last) return {};
  const std::string whole = std::exchange(answer_, {});
  Fence done;
  std::vector<Message> next;
  {
    const MutexLock lock(&mutex_);
    if (fences_.empty()) return Error::Invalid("an answer to no fence");
    done = std::move(fences_.front());
    fences_.pop_front();
    if (!fences_.empty()) next = FenceParts(std::exchange(fences_.front().data, {}));
  }
  if (!next.empty()) link_->Send(next);
  auto* const copy = static_cast<char*>(std::malloc(whole.size() + 1));
  const bool failed = part.code != 0 || copy == nullptr;
  if (copy != nullptr) std::ranges::copy(whole, copy);
  done.answer(failed ? PMIX_ERR_OUT_OF_RESOURCE : PMIX_SUCCESS, copy, failed ? 0 : whole.size(),
              done.answer_data, &Free, copy);
  return {};
}

}  // namespace lockstep::pmix
