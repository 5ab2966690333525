#include "cli/run/run_state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/file.h"
#include "base/folder.h"
#include "base/process/process.h"
#include "base/text/json.h"
#include "base/uuid.h"
#include "cli/programs/ask.h"
#include "core/model/names.h"
#include "core/record/reader.h"
#include "core/record/writer.h"
#include "core/terms/generation.h"
#include "core/text/text.h"

namespace lockstep::core {

template <>
inline constexpr auto kFields<cli::RunRecord> =
    std::tuple(Field{"jobUID", &cli::RunRecord::job_uid, Required{}},
               Field{"name", &cli::RunRecord::name, Required{}},
               Field{"epoch", &cli::RunRecord::epoch, Required{}});

}  // namespace lockstep::core

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxRecord = 4096;
constexpr size_t kMaxGenerationFile = 64 * 1024;

Error WithErrno(const std::string& what) { return ErrnoError(what, errno); }

// Who holds the lock, as its file says.
std::string HolderOf(const std::string& lock_path) {
  Result<std::string> holder = ReadFile(lock_path, kMaxRecord);
  if (!holder.ok() || holder->empty()) return "";
  return " (process " + holder->substr(0, holder->find('\n')) + ")";
}

Result<UniqueFd> Lock(const std::string& folder, const std::string& lock_path) {
  UniqueFd fd(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) return WithErrno("cannot open " + lock_path);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return WithErrno("cannot lock " + lock_path);
    return Error::Conflict("another run uses the checkpoints in " + folder + HolderOf(lock_path) +
                           "; wait for it, stop it, or give this one another --checkpoint");
  }
  std::string holder = std::to_string(getpid()) + "\n";
  if (ftruncate(fd.get(), 0) != 0) return WithErrno("cannot write " + lock_path);
  if (Status status = WriteAll(fd.get(), holder, lock_path); !status.ok()) return status.error();
  return fd;
}

// "" when the file doesn't say.
std::string JobUidIn(const std::string& path) {
  Result<std::string> text = ReadFile(path, kMaxGenerationFile);
  if (!text.ok()) return "";
  const core::Document generation = core::ReadJson(*text, core::Places::kUntold);
  const core::Node* uid = generation.root ? generation.root->Find("jobUID") : nullptr;
  return uid != nullptr ? uid->text() : "";
}

// The generations in the folder, by their files.
struct Generations {
  core::Generation last;
  bool own = false;   // some are this job's: `resume: Auto` goes on from them
  std::string other;  // the UID of another job, whose the last one of others' is
};

Generations FindGenerations(const std::string& folder, const std::string& job_uid) {
  Generations found;
  core::Generation last_other;
  ForEachEntry(folder + "/generations", [&](const fs::directory_entry& entry) {
    const auto number = core::Generation::Parse(entry.path().filename().string());
    if (!number.ok()) return;
    found.last = std::max(found.last, *number);
    std::string uid = JobUidIn(entry.path().string());
    if (uid == job_uid) found.own = true;
    if (uid.empty() || uid == job_uid || *number < last_other) return;
    last_other = *number;
    found.other = std::move(uid);
  });
  return found;
}

// The generations in the object store, as lockstep-s3 reports them.
Result<Generations> AskForGenerations(const std::string& program, const std::string& url,
                                      const std::string& job_uid) {
  Result<Answer> answer = Error::Unavailable("no answer");
  const Status asked =
      AskAll({{"the object store", {program, "--url=" + url, "--timeout=60s", "state"}}},
             {.patience = seconds(70), .env = OwnEnvironment()},
             [&answer](size_t, const Result<Answer>& each) { answer = each; });
  if (!asked.ok()) return asked.error();
  if (!answer.ok()) return answer.error();
  const Json state = ParseJson(answer->text);
  if (!state.is_object()) {
    return Error::Unavailable(url + ": lockstep-s3 gave no answer. " + answer->words);
  }
  if (state.contains("error")) {
    return Error::Unavailable(url + ": " + state["error"].value("message", ""));
  }
  Generations found;
  core::Generation last_other;
  for (const Json& each : state.value("generations", Json::array())) {
    const auto number = core::Generation::Parse(each.value("generation", ""));
    if (!number.ok()) continue;
    found.last = std::max(found.last, *number);
    std::string uid = each.value("jobUID", "");
    if (uid == job_uid) found.own = true;
    if (uid.empty() || uid == job_uid || *number < last_other) continue;
    last_other = *number;
    found.other = std::move(uid);
  }
  return found;
}

Error ForeignCheckpoints(const std::string& folder, const std::string& whose) {
  return Error::Conflict("the checkpoints in " + folder + " are another job's (" + whose +
                         "); to continue from one of them write `checkpoint: {resume: PATH}` (or "
                         "--resume PATH), to begin anew `resume: Never`, or use another folder");
}

}  // namespace

std::string ToJson(const RunRecord& record) {
  return core::WriteJson(core::WriteRecord(record)) + "\n";
}

Result<RunRecord> ParseRunRecord(std::string_view text) {
  return core::ParseRecord<RunRecord>(text, kMaxRecord, "");
}

Result<RunState> RunState::Open(const std::string& job, const std::string& path,
                                const std::string& resume) {
  RunState state;
  state.record_.name = job;
  if (path.empty()) {
    state.record_.job_uid = Uuid::Random().ToString();
    return state;
  }
  std::error_code error;
  fs::create_directories(fs::path(path) / ".lockstep", error);
  if (error) return Error::Denied("cannot make " + path + "/.lockstep: " + error.message());
  state.path_ = fs::canonical(path, error).string();
  if (error) return Error::Invalid("cannot resolve " + path + ": " + error.message());
  std::string folder = state.path_ + "/.lockstep";
  Result<UniqueFd> lock = Lock(state.path_, folder + "/lock");
  if (!lock.ok()) return lock.error();
  state.lock_ = std::move(*lock);
  state.record_.job_uid = core::LocalJobUid(job, state.path_);

  Result<std::string> text = ReadFile(folder + "/run.json", kMaxRecord);
  std::string earlier_name;
  if (text.ok()) {
    Result<RunRecord> earlier = ParseRunRecord(*text);
    if (!earlier.ok()) {
      return Error::Invalid(folder + "/run.json is damaged: " + earlier.error().message +
                            "; remove it if no run uses this folder");
    }
    state.record_.epoch = earlier->epoch;
    if (earlier->job_uid != state.record_.job_uid) earlier_name = earlier->name;
  } else if (text.error().kind != ErrorKind::kNotFound) {
    return text.error();
  }
  // Numbers go on even where run.json was lost.
  const Generations found = FindGenerations(state.path_, state.record_.job_uid);
  state.record_.epoch = std::max(state.record_.epoch, found.last.attempt);
  if (resume == "Auto" && !found.own && !found.other.empty()) {
    return ForeignCheckpoints(state.path_, earlier_name.empty() ? found.other : earlier_name);
  }
  return state;
}

Result<RunState> RunState::OpenBucket(const std::string& job, const std::string& url,
                                      const std::string& resume, const std::string& program) {
  RunState state;
  state.record_.name = job;
  state.record_.job_uid = core::LocalJobUid(job, url);
  state.url_ = url;
  const Result<Generations> found = AskForGenerations(program, url, state.record_.job_uid);
  if (!found.ok()) return found.error();
  state.record_.epoch = found->last.attempt;
  if (resume == "Auto" && !found->own && !found->other.empty()) {
    return Error::Conflict("the checkpoints in " + url + " are another job's (" + found->other +
                           "); to begin anew write `checkpoint: {resume: Never}` (or --resume "
                           "Never), or use another --checkpoint-url");
  }
  return state;
}

Result<uint32_t> RunState::RaiseEpoch() {
  if (record_.epoch == std::numeric_limits<uint32_t>::max()) {
    return Error::TooLarge("the epoch of " + (url_.empty() ? path_ + "/.lockstep/run.json" : url_) +
                           " is spent");
  }
  ++record_.epoch;
  if (!path_.empty()) {
    const std::string file = path_ + "/.lockstep/run.json";
    Status status = WriteFileAtomically(file, ToJson(record_), {.durable = true});
    // A full disk has no room for a second file; the record never grows beyond its block.
    if (!status.ok() && !OverwriteFile(file, ToJson(record_)).ok()) return status.error();
  }
  return record_.epoch;
}

}  // namespace lockstep::cli
