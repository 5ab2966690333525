// Validator: collects the problems that the rules of Validate find. A rule names its field; the
// validator looks up the field's place.
#ifndef LOCKSTEP_CORE_VALIDATE_VALIDATOR_H_
#define LOCKSTEP_CORE_VALIDATE_VALIDATOR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/spec.h"
#include "core/text/problem.h"
#include "core/validate/validate.h"

namespace lockstep::core {

class Validator {
 public:
  Validator(const TrainingJob& its_job, Target its_target) : job(its_job), target(its_target) {}

  const TrainingJob& job;
  const Target target;

  bool local() const { return target == Target::kLocal; }

  void Error(std::string path, std::string message, std::string found = {});
  void Warn(std::string path, std::string message);

  // Errors unless low <= value <= high.
  void Range(const std::string& path, int64_t value, int64_t low, int64_t high);
  void Range(const std::string& path, Duration value, Duration low, Duration high);

  // In the order of the file.
  std::vector<Problem> TakeProblems();

 private:
  void Add(Severity severity, std::string path, std::string message, std::string found);

  std::vector<Problem> problems_;
};

// The rules, by subject.
void ValidateTrainer(Validator& validator);
void ValidateResources(Validator& validator);
void ValidateTemplate(Validator& validator);
void ValidateElastic(Validator& validator);
void ValidateFailurePolicy(Validator& validator);
void ValidateRoles(Validator& validator);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_VALIDATE_VALIDATOR_H_
