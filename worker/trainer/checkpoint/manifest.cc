#include "worker/trainer/checkpoint/manifest.h"

#include <cmath>
#include <limits>
#include <span>

#include "base/crypto/sha256.h"
#include "base/file.h"
#include "base/text/json.h"

namespace lockstep::trainer {

namespace {

constexpr const char* kFormat = "lockstep-checkpoint";
constexpr int kVersion = 1;
constexpr const char* kOwnSum = "sha256";

// JSON has no number for a loss that is none.
Json LossJson(double loss) { return std::isfinite(loss) ? Json(loss) : Json(); }

double LossOf(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

Json RunJson(const Manifest& run) {
  return {{"step", run.step},
          {"cursor", run.cursor},
          {"optimizerSteps", run.optimizer_steps},
          {"skipped", run.skipped},
          {"validated", run.validated},
          {"seed", run.seed},
          {"loss", LossJson(run.loss)},
          {"jobUID", run.job_uid},
          {"generation", run.generation},
          {"instructionSet", run.instruction_set},
          {"precision", run.precision},
          {"data", run.data},
          {"world", run.world},
          {"pipeline", run.pipeline},
          {"tensor", run.tensor},
          {"tensorShards", run.tensor_shards},
          {"globalBatch", run.global_batch},
          {"microBatch", run.micro_batch}};
}

Manifest RunOf(const Json& json) {
  return {.step = json.at("step").get<int64_t>(),
          .cursor = json.at("cursor").get<int64_t>(),
          .optimizer_steps = json.at("optimizerSteps").get<int64_t>(),
          .skipped = json.at("skipped").get<int64_t>(),
          .validated = json.value("validated", int64_t{0}),
          .seed = json.at("seed").get<uint64_t>(),
          .loss = LossOf(json.at("loss")),
          .job_uid = json.at("jobUID").get<std::string>(),
          .generation = json.at("generation").get<std::string>(),
          .instruction_set = json.at("instructionSet").get<std::string>(),
          .precision = json.at("precision").get<std::string>(),
          .data = json.at("data").get<std::string>(),
          .world = json.at("world").get<int>(),
          .pipeline = json.value("pipeline", 1),
          .tensor = json.value("tensor", 1),
          .tensor_shards = json.value("tensorShards", 1),
          .global_batch = json.at("globalBatch").get<int64_t>(),
          .micro_batch = json.at("microBatch").get<int64_t>()};
}

Json ModelJson(const Shape& shape) {
  return {{"layers", shape.layers},
          {"heads", shape.heads},
          {"width", shape.width},
          {"vocabulary", shape.vocabulary},
          {"context", shape.context}};
}

Shape ModelOf(const Json& json) {
  return {.layers = json.at("layers").get<int>(),
          .heads = json.at("heads").get<int>(),
          .width = json.at("width").get<int>(),
          .vocabulary = json.at("vocabulary").get<int>(),
          .context = json.at("context").get<int>()};
}

// Members are sorted by name, so equal contents have equal sums.
std::string SumOf(const Json& json) {
  std::string text = DumpJson(json);
  Sha256 sum;
  sum.Add(std::as_bytes(std::span(text)));
  return sum.Hex();
}

}  // namespace

std::string FormatManifest(const ManifestFile& file) {
  Json files = Json::object();
  for (const auto& [name, sum] : file.files) {
    files[name] = {{"bytes", sum.bytes}, {"sha256", sum.sha256}};
  }
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"model", ModelJson(file.shape)},
               {"run", RunJson(file.manifest)},
               {"files", files}};
  json[kOwnSum] = SumOf(json);
  return DumpJson(json, 2) + "\n";
}

Result<ManifestFile> ParseManifest(std::string_view text) {
  Json json = ParseJson(text);
  if (!json.is_object() || json.value("format", Json()) != kFormat) {
    return Error::Invalid("it is torn, or not a manifest of Lockstep");
  }
  if (json.value("version", Json()) != kVersion) {
    return Error::Invalid("it is of version " + DumpJson(json["version"]) +
                          "; use the Lockstep that wrote it, or a newer one");
  }
  Json own_sum = json.value(kOwnSum, Json());
  json.erase(kOwnSum);
  if (own_sum != SumOf(json)) return Error::Invalid("it is corrupt, or was changed by hand");
  try {
    ManifestFile file = {RunOf(json.at("run")), ModelOf(json.at("model")), {}};
    for (const auto& [name, sum] : json.at("files").items()) {
      file.files[name] = {sum.at("bytes").get<uint64_t>(), sum.at("sha256").get<std::string>()};
    }
    return file;
  } catch (const Json::exception& exception) {
    return Error::Invalid(std::string("a field is missing: ") + exception.what());
  }
}

Result<ManifestFile> ReadManifest(const std::string& folder) {
  std::string path = folder + "/" + kManifestFile;
  Result<std::string> text = ReadFile(path, 1 << 20);
  if (!text.ok()) return text.error();
  Result<ManifestFile> file = ParseManifest(*text);
  if (!file.ok()) return Error::Invalid(path + ": " + file.error().message);
  return file;
}

Status VerifyFile(const std::string& folder, const ManifestFile& manifest,
                  const std::string& name) {
  std::string path = folder + "/" + name;
  auto expected = manifest.files.find(name);
  if (expected == manifest.files.end()) {
    return Error::Invalid(folder + "/" + kManifestFile + " does not list " + name);
  }
  Result<FileSum> sum = SumFile(path);
  if (!sum.ok() && sum.error().kind == ErrorKind::kNotFound) {
    return Error::Invalid(path + " is missing from the checkpoint");
  }
  if (!sum.ok()) return sum.error();
  if (sum->bytes != expected->second.bytes) {
    return Error::Invalid(path + " is torn: it has " + std::to_string(sum->bytes) + " of " +
                          std::to_string(expected->second.bytes) + " bytes");
  }
  if (*sum != expected->second) {
    return Error::Invalid(path + " is corrupt: its SHA-256 is " + sum->sha256 + ", not " +
                          expected->second.sha256);
  }
  return {};
}

}  // namespace lockstep::trainer
