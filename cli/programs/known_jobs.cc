#include "cli/programs/known_jobs.h"

#include <sstream>
#include <utility>

#include "base/process/process.h"
#include "cli/programs/ask.h"
#include "worker/place/run_folder.h"

namespace lockstep::cli {

std::vector<std::string> RunsHere(const std::vector<std::string>& /*options*/) {
  std::vector<std::string> names;
  for (place::RunUnderWay& run : place::RunsUnderWay()) {
    if (!run.job.empty()) names.push_back(std::move(run.job));
  }
  return names;
}

std::vector<std::string> JobsOfCluster(const std::vector<std::string>& options) {
  const Result<std::string> self = OwnProgram();
  if (!self.ok()) return {};
  Question question{"lockstep list", {*self, "list"}};
  question.argv.insert(question.argv.end(), options.begin(), options.end());
  std::vector<std::string> names;
  const AskOptions patience{.patience = seconds(3), .at_once = 1, .env = OwnEnvironment()};
  const Status asked = AskAll({question}, patience, [&](size_t, const Result<Answer>& answer) {
    if (!answer.ok() || answer->late) return;
    std::istringstream lines(answer->text);
    std::string line;
    std::getline(lines, line);  // the heading
    while (std::getline(lines, line)) names.push_back(line.substr(0, line.find(' ')));
  });
  return asked.ok() ? names : std::vector<std::string>();
}

}  // namespace lockstep::cli
