#include "worker/trainer/checkpoint/checkpoint.h"

#include <cassert>
#include <string_view>
#include <utility>

#include "worker/trainer/checkpoint/checkpoint_folder.h"
#include "worker/trainer/checkpoint/hugging_face.h"
#include "worker/trainer/checkpoint/manifest.h"
#include "worker/trainer/checkpoint/safetensors.h"

namespace lockstep::trainer {

namespace {

constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kMoment1 = "exp_avg.";
constexpr const char* kMoment2 = "exp_avg_sq.";

// A flat array whose tensors' names begin with `prefix`.
struct Arena {
  std::string_view prefix;
  std::span<const float> values;
};

// The flat arrays are what the file's data is, one behind the other.
Status WriteArenas(const Shape& shape, std::span<const Arena> arenas, OutputFile* file) {
  std::vector<std::pair<std::string, TensorInfo>> tensors;
  uint64_t begin = 0;
  for (const Arena& arena : arenas) {
    for (const Parameter& parameter : Parameters(shape)) {
      uint64_t end = begin + parameter.size * sizeof(float);
      tensors.emplace_back(std::string(arena.prefix) + parameter.name,
                           TensorInfo{"F32", parameter.shape, begin, end});
      begin = end;
    }
  }
  Status written = file->Write(FormatSafetensorsHeader(tensors));
  for (const Arena& arena : arenas) {
    assert(arena.values.size() == ParameterCount(shape));
    if (written.ok()) written = file->Write(std::as_bytes(arena.values));
  }
  return written;
}

Status AddTexts(const Shape& shape, CheckpointFolder* folder) {
  std::vector<std::pair<const char*, std::string>> texts = {
      {"config.json", ConfigJson(shape)}, {"generation_config.json", GenerationConfigJson(shape)}};
  if (shape.vocabulary == kByteVocabulary) {
    texts.emplace_back("tokenizer.json", ByteTokenizerJson());
    texts.emplace_back("tokenizer_config.json", TokenizerConfigJson(shape));
  }
  for (const auto& [name, text] : texts) {
    Status added = folder->Add(name, text);
    if (!added.ok()) return added;
  }
  return {};
}

Status ReadArena(const SafetensorsFile& file, const Shape& shape, std::string_view prefix,
                 std::span<float> values) {
  assert(values.size() == ParameterCount(shape));
  for (const Parameter& parameter : Parameters(shape)) {
    Status read = file.Read(std::string(prefix) + parameter.name, parameter.shape,
                            values.subspan(parameter.offset, parameter.size));
    if (!read.ok()) return Error{ErrorKind::kInvalid, read.error().message};
  }
  return {};
}

// All of them, before anything is read into the state.
Status Verify(const std::string& folder, const ManifestFile& manifest) {
  for (const char* needed : {kModelFile, kOptimizerFile}) {
    if (!manifest.files.contains(needed)) {
      return Error::Invalid(folder + "/" + kManifestFile + " does not list " + needed);
    }
  }
  for (const auto& [name, sum] : manifest.files) {
    Status verified = VerifyFile(folder, manifest, name);
    if (!verified.ok()) return verified;
  }
  return {};
}

Status ReadState(const std::string& folder, const Shape& shape, TrainingState state) {
  Result<SafetensorsFile> model = SafetensorsFile::Open(folder + "/" + kModelFile);
  if (!model.ok()) return model.error();
  Result<SafetensorsFile> optimizer = SafetensorsFile::Open(folder + "/" + kOptimizerFile);
  if (!optimizer.ok()) return optimizer.error();
  Status read = ReadArena(*model, shape, "", state.parameters);
  if (read.ok()) read = ReadArena(*optimizer, shape, kMoment1, state.moment1);
  if (read.ok()) read = ReadArena(*optimizer, shape, kMoment2, state.moment2);
  return read;
}

}  // namespace

Status WriteCheckpoint(const std::string& folder, const Shape& shape, ConstTrainingState state,
                       const Manifest& manifest) {
  CheckpointFolder target(folder);
  Status done = target.Make();
  if (done.ok()) {
    done = target.Add(kModelFile, [&](OutputFile* file) {
      return WriteArenas(shape, std::vector<Arena>{{"", state.parameters}}, file);
    });
  }
  if (done.ok()) {
    done = target.Add(kOptimizerFile, [&](OutputFile* file) {
      return WriteArenas(
          shape, std::vector<Arena>{{kMoment1, state.moment1}, {kMoment2, state.moment2}}, file);
    });
  }
  if (done.ok()) done = AddTexts(shape, &target);
  if (done.ok()) {
    done = target.Add(kManifestFile, FormatManifest({manifest, shape, target.files()}));
  }
  if (done.ok()) done = target.Keep();
  return done;
}

Result<Manifest> ReadCheckpoint(const std::string& folder, const Shape& shape,
                                TrainingState state) {
  Result<ManifestFile> manifest = ReadManifest(folder);
  if (!manifest.ok()) return manifest.error();
  if (manifest->shape != shape) {
    return Error::Invalid(folder + " is of a model of " + ToString(manifest->shape) +
                          ", but the job's has " + ToString(shape) +
                          "; set that model in the job, or use another checkpoint folder");
  }
  Status read = Verify(folder, *manifest);
  if (read.ok()) read = ReadState(folder, shape, state);
  if (!read.ok()) return read.error();
  return manifest->manifest;
}

}  // namespace lockstep::trainer
