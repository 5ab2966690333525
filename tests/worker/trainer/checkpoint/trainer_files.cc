// lockstep-trainer-files: writes what a trainer leaves behind, for the readers of others, and says
// what it reads of theirs.
//
//   checkpoint DIR LAYERS HEADS WIDTH VOCABULARY CONTEXT   a checkpoint of a pseudo-random model
//   events DIR START STEPS BASE    an event file that starts at step START and tells of STEPS
//   steps;
//                                  train/loss is BASE + step
//   model DIR                      the shape, and the bytes of the parameters' sum, as ReadModel
//   has
//                                  them: "L H C V T sha256"
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/crypto/sha256.h"
#include "base/events/tensorboard.h"
#include "worker/trainer/checkpoint/checkpoint.h"

namespace {

using lockstep::Result;
using lockstep::Status;
namespace trainer = lockstep::trainer;

int Fail(const lockstep::Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

int Number(const char* text) { return static_cast<int>(std::strtol(text, nullptr, 10)); }

std::vector<float> Normals(size_t count, unsigned int seed) {
  std::mt19937 random(seed);  // NOLINT(cert-msc51-cpp): the same model each time
  std::normal_distribution<float> normal(0, 0.2F);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

int WriteCheckpoint(std::span<char*> arguments) {
  trainer::Shape shape = {Number(arguments[1]), Number(arguments[2]), Number(arguments[3]),
                          Number(arguments[4]), Number(arguments[5])};
  size_t count = ParameterCount(shape);
  std::vector<float> parameters = Normals(count, 1);
  std::vector<float> moment1 = Normals(count, 2);
  std::vector<float> moment2 = Normals(count, 3);
  trainer::Manifest manifest;
  manifest.step = 10;
  Status written =
      trainer::WriteCheckpoint(arguments[0], shape, {parameters, moment1, moment2}, manifest);
  return written.ok() ? 0 : Fail(written.error());
}

int WriteEvents(std::span<char*> arguments) {
  int start = Number(arguments[1]);
  auto file = lockstep::events::EventFile::Create(arguments[0], start);
  if (!file.ok()) return Fail(file.error());
  for (int step = start; step < start + Number(arguments[2]); ++step) {
    std::vector<lockstep::events::Scalar> scalars = {
        {"train/loss", Number(arguments[3]) + static_cast<double>(step)}, {"train/lr", 0.25}};
    Status told = (*file)->Scalars(step, 1.7e9 + step, scalars);
    if (!told.ok()) return Fail(told.error());
  }
  return 0;
}

int ReadModel(std::span<char*> arguments) {
  Result<trainer::LoadedModel> model = trainer::ReadModel(arguments[0]);
  if (!model.ok()) return Fail(model.error());
  lockstep::Sha256 sum;
  sum.Add(std::as_bytes(std::span(model->parameters)));
  const trainer::Shape& shape = model->shape;
  std::printf("%d %d %d %d %d %s\n", shape.layers, shape.heads, shape.width, shape.vocabulary,
              shape.context, sum.Hex().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::span<char*> arguments(argv + 1, static_cast<size_t>(argc - 1));
  std::string command = arguments.empty() ? "" : arguments[0];
  if (command == "checkpoint" && arguments.size() == 7) {
    return WriteCheckpoint(arguments.subspan(1));
  }
  if (command == "events" && arguments.size() == 5) return WriteEvents(arguments.subspan(1));
  if (command == "model" && arguments.size() == 2) return ReadModel(arguments.subspan(1));
  std::fprintf(stderr, "checkpoint DIR L H C V T | events DIR START STEPS BASE | model DIR\n");
  return 64;
}
