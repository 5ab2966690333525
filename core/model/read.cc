#include "core/model/read.h"

#include <algorithm>
#include <array>

#include "base/text/ascii.h"
#include "core/model/fields.h"
#include "core/record/reader.h"

namespace lockstep::core {
namespace {

// Lockstep's name of another launcher's field. Names are compared without case, '_' and '-'.
struct ForeignName {
  std::string_view name;
  const char* instead;
};
constexpr std::array<ForeignName, 7> kForeignNames = {{
    {"numprocesses",
     "write processesPerMachine, the processes of one machine; accelerate's num_processes is the "
     "total: divide it by numMachines"},
    {"nprocpernode", "write processesPerMachine"},
    {"nnodes", "write numMachines"},
    {"machinerank", "remove it: Lockstep gives every machine its rank at each start"},
    {"mainprocessip", "remove it: the machines find each other, and MASTER_ADDR is set"},
    {"mainprocessport", "remove it: the machines find each other, and MASTER_PORT is set"},
    {"mixedprecision",
     "write it into spec.env, as in {name: ACCELERATE_MIXED_PRECISION, value: bf16}; for the "
     "built-in trainer write spec.trainer.precision"},
}};

std::string InsteadOf(std::string_view name) {
  std::string letters = ToLower(name);
  std::erase_if(letters, [](char c) { return c == '_' || c == '-'; });
  for (const ForeignName& foreign : kForeignNames) {
    if (foreign.name == letters) return std::string("; ") + foreign.instead;
  }
  return {};
}

// Kinds of other launchers' jobs that `lockstep convert` reads.
bool IsConvertible(std::string_view kind) {
  constexpr std::array<std::string_view, 6> kKinds = {"PyTorchJob", "TrainJob", "MPIJob",
                                                      "TFJob",      "JAXJob",   "RayJob"};
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

class JobReader final : public RecordReader {
 public:
  using RecordReader::RecordReader;

  void ReadTop(const Node& document, TrainingJob& job) {
    if (!document.IsMap()) {
      return Wrong(document, "must be a mapping with apiVersion, kind, metadata and spec");
    }
    Place(document);
    Expect(document, "apiVersion", kApiVersion);
    Expect(document, "kind", kKind);
    IsMapOf(document, {"apiVersion", "kind", "metadata", "spec", "status"}, /*open=*/false);
    Section(document, "metadata", job.metadata);
    Section(document, "spec", job.spec);
  }

 private:
  std::string InPlaceOf(std::string_view name) const override { return InsteadOf(name); }

  // apiVersion and kind: one text each.
  void Expect(const Node& document, const char* key, const std::string& value) {
    const Scope scope(*this, key);
    const Node* node = document.Find(key);
    if (node == nullptr) {
      Wrong(document, "is missing; write \"" + std::string(key) + ": " + value + "\"", false);
      return;
    }
    Place(*node);
    if (node->IsString() && node->text() == value) return;
    std::string hint = "must be " + value;
    if (IsConvertible(node->text())) {
      hint += "; `lockstep convert FILE` makes a TrainingJob of this file";
    }
    Wrong(*node, hint);
  }

  template <typename Struct>
  void Section(const Node& document, const char* key, Struct& value) {
    const Scope scope(*this, key);
    const Node* node = document.Find(key);
    if (node == nullptr) return Missing(document);
    Place(*node);
    Read(*node, value);
  }
};

}  // namespace

ParseResult ReadJob(const Node& document, Origin origin) {
  JobReader reader(origin == Origin::kUser ? Author::kUser : Author::kApiServer, "");
  ParseResult result;
  reader.ReadTop(document, result.job.emplace());
  result.job->source = reader.TakeSource();
  result.problems = reader.TakeProblems();
  return result;
}

}  // namespace lockstep::core
