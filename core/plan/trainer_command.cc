#include "core/plan/trainer_command.h"

#include "core/model/shortcuts.h"
#include "core/record/reader.h"
#include "core/record/writer.h"
#include "core/text/text.h"

namespace lockstep::core {

std::vector<std::string> TrainerCommand(const Spec& spec) {
  Trainer trainer = *spec.trainer;
  if (trainer.device == Device::kAuto && AsksForGpus(spec)) trainer.device = Device::kCuda;
  return {std::string(kTrainerProgram), "job", WriteJson(WriteRecord(trainer))};
}

Result<Trainer> ParseTrainer(std::string_view json) {
  const Document document = ReadJson(json, Places::kUntold);
  std::vector<Problem> problems = document.problems;
  Trainer trainer;
  if (document.root) {
    RecordReader reader(Author::kUser, "spec.trainer");
    reader.Read(*document.root, trainer);
    problems = reader.TakeProblems();
  }
  if (problems.empty()) return trainer;
  const Problem& first = problems.front();
  return Error::Invalid((first.path.empty() ? "spec.trainer" : first.path) + ": " + first.message);
}

}  // namespace lockstep::core
