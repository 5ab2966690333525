#include "worker/agent/storage/checkpoint_bucket.h"

#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/text/duration.h"

namespace lockstep::agent {

namespace {

using core::CheckpointEntry;
using core::CheckpointId;
using core::Generation;

constexpr Duration kShort = minutes(2);   // for small objects
constexpr Duration kLong = minutes(120);  // for a part

// "2-5/000003.step-1200", as lockstep-s3 names checkpoints.
std::string NameOf(CheckpointId id, const std::string& name) {
  std::array<char, 16> number{};
  std::snprintf(number.data(), number.size(), "%06u.", id.number);
  return id.generation.ToString() + "/" + number.data() + name;
}

std::string TextOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Status StatusOf(const Result<Json>& result) {
  if (!result.ok()) return result.error();
  return {};
}

}  // namespace

CheckpointBucket::CheckpointBucket(ObjectStore* store, std::string job_uid, std::string resume,
                                   uint32_t first_attempt, Limits limits)
    : GenerationLine(store->url(),
                     "begin anew beside them with checkpoint.resume: Never, or choose another "
                     "checkpoint.url",
                     std::move(job_uid), std::move(resume), first_attempt),
      store_(store),
      limits_(limits) {}

std::string CheckpointBucket::PathOfRecord(Generation generation) const {
  return store_->url() + "/generations/" + generation.ToString();
}

std::string CheckpointBucket::PathOfCommits(Generation generation) const {
  return store_->url() + "/checkpoints/" + generation.ToString();
}

Result<GenerationLine::Generations> CheckpointBucket::ReadGenerations() const {
  Result<Json> state = store_->Run({"state"}, kShort);
  if (!state.ok()) return state.error();
  const std::string checkpoints = store_->url() + "/checkpoints/";
  Generations found;
  for (const Json& each : state->value("generations", Json::array())) {
    const Result<Generation> generation = Generation::Parse(TextOf(each, "generation"));
    if (!generation.ok()) continue;
    const std::string resumes = TextOf(each, "resumes");
    if (each.value("damaged", false)) {
      found.silent.push_back(*generation);
    } else if (TextOf(each, "jobUID") == job_uid()) {
      found.own.push_back({*generation, resumes.empty() ? "" : checkpoints + resumes});
    } else {
      found.others.push_back(*generation);
      found.other_uid = TextOf(each, "jobUID");
    }
  }
  for (const Json& each : state->value("commits", Json::array())) {
    const std::string path = checkpoints + (each.is_string() ? each.get<std::string>() : "");
    const CheckpointId id = core::CheckpointIdOf(path);
    if (id.exists()) found.commits.push_back({id.generation, id.number, path});
  }
  return found;
}

Result<std::vector<CheckpointEntry>> CheckpointBucket::ReadCommits(const Generations& found,
                                                                   Generation generation) const {
  std::vector<CheckpointEntry> entries;
  for (const CheckpointEntry& each : found.commits) {
    if (each.generation == generation) entries.push_back(each);
  }
  return entries;
}

Status CheckpointBucket::CheckResume(const std::string& resume) const {
  return Error::Invalid("checkpoint.resume must be Auto or Never with an object store, not " +
                        resume);
}

Status CheckpointBucket::Create(const Record& record) const {
  // Below the prefix, so that a bucket may be copied to another one.
  const std::string_view checkpoints = "/checkpoints/";
  const std::string resumes =
      record.resumes.empty() ? ""
                             : record.resumes.substr(store_->url().size() + checkpoints.size());
  return StatusOf(store_->Run({"begin", "--generation=" + record.generation.ToString(),
                               "--job=" + record.job_uid, "--resumes=" + resumes},
                              kShort));
}

Status CheckpointBucket::WritePart(CheckpointId to, const std::string& name, uint32_t machine,
                                   const std::string& folder) const {
  // Options of the whole program come before the command.
  return StatusOf(store_->Run({"--bandwidth=" + std::to_string(limits_.upload_bandwidth),
                               "put-part", "--checkpoint=" + NameOf(to, name),
                               "--machine=" + std::to_string(machine), "--folder=" + folder},
                              kLong));
}

Status CheckpointBucket::FinishPersisting(CheckpointId to, const std::string& name,
                                          uint32_t machines) const {
  return StatusOf(store_->Run({"commit", "--checkpoint=" + NameOf(to, name), "--job=" + job_uid(),
                               "--machines=" + std::to_string(machines)},
                              kShort));
}

Status CheckpointBucket::Prune(Generation generation) const {
  return StatusOf(store_->Run(
      {"prune", "--generation=" + generation.ToString(), "--job=" + job_uid(),
       "--keep=" + std::to_string(limits_.keep), "--keep-every=" + FormatDuration(limits_.every)},
      kLong));
}

Status CheckpointBucket::FetchPart(const core::MemoryPart& part, uint32_t machines,
                                   const std::string& folder, uint64_t limit) const {
  return StatusOf(
      store_->Run({"fetch", "--checkpoint=" + NameOf(part.id, part.name), "--folder=" + folder,
                   "--machine=" + std::to_string(part.machine),
                   "--machines=" + std::to_string(machines), "--limit=" + std::to_string(limit)},
                  kLong));
}

}  // namespace lockstep::agent
