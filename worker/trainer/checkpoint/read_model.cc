#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "worker/trainer/checkpoint/checkpoint.h"
#include "worker/trainer/checkpoint/hugging_face.h"
#include "worker/trainer/checkpoint/manifest.h"
#include "worker/trainer/checkpoint/safetensors.h"

namespace lockstep::trainer {

namespace {

constexpr const char* kConfigFile = "config.json";
constexpr const char* kHead = "lm_head.weight";
constexpr std::string_view kPrefix = "transformer.";

// What transformers once saved beside the parameters: the causal mask and its value.
bool IsBuffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

// The name under which `file` holds a parameter: GPT2LMHeadModel saves with the prefix, GPT2Model
// without. The embedding may go by the name of the head that it is tied to.
std::optional<std::string> NameIn(const TensorMap& tensors, const std::string& name) {
  std::vector<std::string> names = {name, name.substr(kPrefix.size())};
  if (name == "transformer.wte.weight") names.emplace_back(kHead);
  auto found =
      std::ranges::find_if(names, [&](const std::string& each) { return tensors.contains(each); });
  return found == names.end() ? std::nullopt : std::optional(*found);
}

// Without a manifest a folder is Hugging Face's, and has no sums.
Status VerifyIfOurs(const std::string& folder) {
  Result<ManifestFile> manifest = ReadManifest(folder);
  if (!manifest.ok() && manifest.error().kind == ErrorKind::kNotFound) return {};
  if (!manifest.ok()) return manifest.error();
  Status verified = VerifyFile(folder, *manifest, kConfigFile);
  if (verified.ok()) verified = VerifyFile(folder, *manifest, kModelFile);
  return verified;
}

Result<Shape> ReadShape(const std::string& folder) {
  std::string path = folder + "/" + kConfigFile;
  Result<std::string> text = ReadFile(path, 1 << 20);
  if (!text.ok()) return text.error();
  Result<Shape> shape = ShapeOfConfig(*text);
  if (!shape.ok()) return Error::Invalid(path + ": " + shape.error().message);
  return shape;
}

Result<SafetensorsFile> OpenModel(const std::string& folder) {
  std::string path = folder + "/" + kModelFile;
  Result<SafetensorsFile> file = SafetensorsFile::Open(path);
  if (!file.ok() && file.error().kind == ErrorKind::kNotFound) {
    return Error::NotFound(path +
                           " is not there; save the model with transformers' "
                           "save_pretrained(FOLDER, safe_serialization=True, "
                           "max_shard_size=\"100GB\")");
  }
  return file;
}

// The name in the file of each parameter; all others must be known to be of no use.
Result<std::vector<std::string>> FindNames(const SafetensorsFile& file,
                                           std::span<const Parameter> parameters) {
  std::vector<std::string> names;
  std::set<std::string> rest;
  for (const auto& [name, info] : file.tensors()) {
    if (!IsBuffer(name)) rest.insert(name);
  }
  for (const Parameter& parameter : parameters) {
    std::optional<std::string> name = NameIn(file.tensors(), parameter.name);
    if (!name) {
      return Error::Invalid(file.path() + " lacks the tensor " + parameter.name +
                            ", which config.json's sizes ask for");
    }
    const TensorInfo& info = file.tensors().find(*name)->second;
    if (info.shape != parameter.shape) {
      return Error::Invalid(file.path() + ": tensor " + *name + " has the shape " +
                            ToString(info.shape) + ", but config.json's sizes ask for " +
                            ToString(parameter.shape));
    }
    rest.erase(*name);
    names.push_back(*name);
  }
  rest.erase(kHead);
  if (rest.empty()) return names;
  return Error::Invalid(file.path() + " holds the tensor " + *rest.begin() +
                        ", which a GPT-2 of config.json's sizes does not have");
}

// A head of its own is one that Lockstep's model doesn't have.
Status CheckHead(const SafetensorsFile& file, const Shape& shape,
                 std::span<const float> embedding) {
  if (!file.tensors().contains(kHead)) return {};
  std::vector<float> head(embedding.size());
  Status read = file.Read(kHead, std::vector<int64_t>{shape.vocabulary, shape.width}, head);
  if (!read.ok()) return read;
  if (std::ranges::equal(std::as_bytes(std::span(head)), std::as_bytes(embedding))) return {};
  return Error::Invalid(file.path() +
                        ": lm_head.weight differs from the token embedding, but "
                        "Lockstep's model has one for both; save one with tie_word_embeddings");
}

}  // namespace

Result<LoadedModel> ReadModel(const std::string& folder) {
  Status verified = VerifyIfOurs(folder);
  if (!verified.ok()) return verified.error();
  Result<Shape> shape = ReadShape(folder);
  if (!shape.ok()) return shape.error();
  Result<SafetensorsFile> file = OpenModel(folder);
  if (!file.ok()) return file.error();

  std::vector<Parameter> parameters = Parameters(*shape);
  Result<std::vector<std::string>> names = FindNames(*file, parameters);
  if (!names.ok()) return names.error();
  // Not before the file is known to hold as much.
  LoadedModel model = {*shape, std::vector<float>(ParameterCount(*shape))};
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    Status read = file->Read((*names)[i], parameter.shape,
                             std::span(model.parameters).subspan(parameter.offset, parameter.size));
    if (!read.ok()) return read.error();
  }
  Status head = CheckHead(*file, *shape, std::span(model.parameters).first(parameters[0].size));
  if (!head.ok()) return head.error();
  return model;
}

}  // namespace lockstep::trainer
