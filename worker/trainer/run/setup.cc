#include "worker/trainer/run/setup.h"

#include <string>
#include <utility>

#include "worker/trainer/process/exit_code.h"
#include "worker/trainer/run/options.h"
#include "worker/trainer/run/same_data.h"
#include "worker/trainer/run/scaling.h"

namespace lockstep::trainer {

namespace {

// What a rank holds of the state must be all of it.
Status CheckInPlace(const core::Trainer& job, const Mesh& mesh) {
  if (job.recovery != core::Recovery::kInPlace) return {};
  if (job.sync != core::Sync::kAllReduce || mesh.ranks() > 1) {
    return Error::Invalid(
        "in-place restart needs ranks that hold the whole state: sync AllReduce, and "
        "parallel.pipeline and tensor 1");
  }
  return {};
}

Result<std::optional<Validator>> OpenValidation(const core::Trainer& job, const Shape& shape,
                                                int micro_batch, int rank) {
  if (job.validation_data.empty()) return std::optional<Validator>();
  Result<Validator> validator = Validator::Open(job, shape, micro_batch);
  if (!validator.ok()) return validator.error();
  const std::string both = rank == 0 ? TrainedOnAndHeldOut(job) : "";
  if (!both.empty())
    Warn("validationData: " + both + " is also in the training data; remove it from one of them");
  return std::optional<Validator>(std::move(*validator));
}

}  // namespace

Result<Setup> Setup::Make(const core::Trainer& job, const Gpu* open) {
  Result<collectives::Options> connection = collectives::OptionsFromEnvironment();
  if (!connection.ok()) return connection.error();
  Result<Shape> shape = ShapeOf(job);
  if (!shape.ok()) return shape.error();
  const Mesh mesh = Mesh::Of(job.parallel, connection->rank, connection->world);
  if (Status fits = CheckMesh(job, *shape, mesh); !fits.ok()) return fits.error();
  if (Status alone = CheckScaling(job, mesh); !alone.ok()) return alone.error();
  Result<BatchPlan> batch = PlanBatches(job.global_batch_size, job.micro_batch_size.value_or(0),
                                        connection->rank, connection->world, mesh.ranks());
  if (!batch.ok()) return batch.error();
  Result<Placement> place = Placement::Choose(job, *shape, batch->micro_batch, *connection, open);
  if (!place.ok()) return place.error();
  if (Status in_place = CheckInPlace(job, mesh); !in_place.ok()) return in_place.error();
  Status precision = place->gpu() ? Status() : CheckPrecision(job.precision);
  if (!precision.ok()) return precision.error();
  Result<Dataset> data = Dataset::Open({.globs = job.data,
                                        .sequence_length = shape->context,
                                        .vocabulary = shape->vocabulary,
                                        .at_least = batch->global_batch,
                                        .seed = static_cast<uint64_t>(job.seed)});
  if (!data.ok()) return data.error();
  Result<std::optional<Validator>> validator =
      OpenValidation(job, *shape, batch->micro_batch, connection->rank);
  if (!validator.ok()) return validator.error();
  return Setup{.connection = std::move(*connection),
               .shape = *shape,
               .mesh = mesh,
               .batch = *batch,
               .place = std::move(*place),
               .data = std::move(*data),
               .validator = std::move(*validator)};
}

}  // namespace lockstep::trainer
