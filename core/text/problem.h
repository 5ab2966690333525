// Problem: one mistake in a job, in the form of a compiler's message.
//
//   job.yaml:12:5: error: spec.nummachines: unknown field; did you mean "numMachines"?
#ifndef LOCKSTEP_CORE_TEXT_PROBLEM_H_
#define LOCKSTEP_CORE_TEXT_PROBLEM_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/node.h"

namespace lockstep::core {

enum class Severity : uint8_t { kError, kWarning };

struct Problem {
  std::string path{};  // "spec.failurePolicy.rules[0].action"; empty: the document as a whole
  int line = 0;        // from 1; 0: unknown
  int column = 0;      // from 1
  std::string
      found{};  // what stood there: "the text \"four\""; empty when there is nothing to show
  std::string message{};  // what is wrong and what to write instead
  Severity severity = Severity::kError;

  friend bool operator==(const Problem&, const Problem&) = default;
};

// Adds the problems that Validate found to those of the reader. Problems of a field that the reader
// could not read are left out, since that field holds only its default.
void AddProblems(std::vector<Problem> of_rules, std::vector<Problem>* problems);

bool HasErrors(const std::vector<Problem>& problems);

// One line without its end: FILE:LINE:COLUMN: SEVERITY: PATH: MESSAGE (found FOUND).
std::string Format(const Problem& problem, std::string_view file_name);
// All of them in the order of the file, a line each.
std::string Format(const std::vector<Problem>& problems, std::string_view file_name);

// The name among `known` that `name` was probably meant to be (case, a letter or two); empty when
// none is near.
std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& known);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_TEXT_PROBLEM_H_
