// lockstep-operator: runs TrainingJobs on a Kubernetes cluster. docs/operate/operator.md says how.
#include <cstdio>
#include <exception>
#include <optional>

#include "operator/controller/options.h"
#include "operator/controller/program.h"

int main(int argc, char** argv) {
  try {
    lockstep::control::Options options;
    options.http = lockstep::kube::LOCKSTEP_HTTP;
    if (std::optional<int> code = lockstep::control::ParseOptions(argc, argv, &options)) {
      return *code;
    }
    return lockstep::control::RunOperator(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lockstep-operator: %s\n", e.what());
    return 2;
  }
}
