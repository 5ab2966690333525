// Judge: what every rule of Validate speaks through. A rule names the field it is about; the judge
// finds where that stood.
#ifndef LOCKSTEP_CORE_VALIDATE_JUDGE_H_
#define LOCKSTEP_CORE_VALIDATE_JUDGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/spec.h"
#include "core/text/problem.h"
#include "core/validate/validate.h"

namespace lockstep::core {

class Judge {
 public:
  Judge(const TrainingJob& judged, Target judged_for) : job(judged), target(judged_for) {}

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
void JudgeTrainer(Judge& judge);
void JudgeResources(Judge& judge);
void JudgeTemplate(Judge& judge);
void JudgeFailurePolicy(Judge& judge);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_VALIDATE_JUDGE_H_
