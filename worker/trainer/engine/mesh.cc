#include "worker/trainer/engine/mesh.h"

#include <string>

namespace lockstep::trainer {

Status CheckMesh(const core::Trainer& job, const Shape& shape, const Mesh& mesh) {
  if (mesh.stages == 1) return {};
  if (job.sync == core::Sync::kParameterServer) {
    return Error::Invalid(
        "a parameter server serves whole models: write sync AllReduce, or parallel.pipeline 1");
  }
  if (job.reduce != core::Reduce::kTree) {
    return Error::Invalid(
        "copies of a stage add up as a tree: write reduce Tree, or parallel.pipeline 1");
  }
  if (Status stages = CheckStages(shape, mesh.stages); !stages.ok()) return stages;
  if (mesh.world % mesh.stages == 0) return {};
  const std::string n = std::to_string(mesh.stages);
  return Error::Invalid("a world of " + std::to_string(mesh.world) +
                        " processes can't be cut into pipelines of " + n +
                        " stages: run it with a multiple of " + n + ", as in " + n + " or " +
                        std::to_string(2 * mesh.stages));
}

}  // namespace lockstep::trainer
