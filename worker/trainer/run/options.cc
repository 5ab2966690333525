#include "worker/trainer/run/options.h"

#include <sched.h>

#include <cstdlib>

#include "core/model/presets.h"

namespace lockstep::trainer {

Result<Shape> ShapeOf(const core::Trainer& job) {
  const core::ModelShape sizes = core::SizesOf(job);
  const Shape shape{.layers = sizes.layers,
                    .heads = sizes.heads,
                    .width = sizes.width,
                    .vocabulary = sizes.vocabulary,
                    .context = job.sequence_length};
  if (shape.layers < 1 || shape.heads < 1 || shape.width < 1 || shape.vocabulary < 1) {
    return Error::Invalid("a model needs layers, heads, width and vocabulary of at least 1");
  }
  if (shape.width % shape.heads != 0) {
    return Error::Invalid("width " + std::to_string(shape.width) + " is not a multiple of heads, " +
                          std::to_string(shape.heads));
  }
  return shape;
}

int ThreadCount(int asked) {
  if (asked > 0) return asked;
  if (const char* openmp = std::getenv("OMP_NUM_THREADS")) {
    const int count = std::atoi(openmp);
    if (count > 0) return count;
  }
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

}  // namespace lockstep::trainer
