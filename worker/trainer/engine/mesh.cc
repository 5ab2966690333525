#include "worker/trainer/engine/mesh.h"

#include <string>

namespace lockstep::trainer {

Status CheckMesh(const core::Trainer& job, const Shape& shape, const Mesh& mesh) {
  if (mesh.stages == 1 && mesh.tensor == 1 && mesh.shards == 1) return {};
  if (Status shards = CheckShards(shape, {0, mesh.tensor, mesh.shards}); !shards.ok()) {
    return shards;
  }
  const std::string one =
      mesh.stages > 1 ? "parallel.pipeline 1" : "parallel.tensor and tensorShards 1";
  if (job.sync == core::Sync::kParameterServer) {
    return Error::Invalid("a parameter server serves whole models: write sync AllReduce, or " +
                          one);
  }
  if (job.reduce != core::Reduce::kTree) {
    return Error::Invalid(
        "copies of a stage, and shards, are summed as a tree: write reduce Tree, or " + one);
  }
  if (Status stages = CheckStages(shape, mesh.stages); !stages.ok()) return stages;
  if (mesh.world % mesh.ranks() == 0) return {};
  const std::string n = std::to_string(mesh.ranks());
  std::string pipelines = "pipelines of " + std::to_string(mesh.stages) + " stages";
  if (mesh.tensor > 1) pipelines += " of " + std::to_string(mesh.tensor) + " ranks";
  return Error::Invalid("a world of " + std::to_string(mesh.world) +
                        " processes cannot be divided into " + pipelines +
                        ": run it with a multiple of " + n + ", as in " + n + " or " +
                        std::to_string(2 * mesh.ranks()));
}

}  // namespace lockstep::trainer
