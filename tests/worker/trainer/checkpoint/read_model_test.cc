#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/worker/trainer/checkpoint/checkpoint_test_base.h"
#include "worker/trainer/checkpoint/checkpoint.h"
#include "worker/trainer/checkpoint/hugging_face.h"
#include "worker/trainer/checkpoint/safetensors.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, Tensor>;

class ReadModelTest : public CheckpointTestBase {
 protected:
  // What GPT2LMHeadModel.save_pretrained leaves, with `change` to the tensors' names.
  static Tensors Model(const std::function<std::string(std::string)>& change) {
    Tensors tensors;
    OwnedState state(kTiny, 1);
    for (const Parameter& each : Parameters(kTiny)) {
      auto begin = state.parameters.begin() + static_cast<std::ptrdiff_t>(each.offset);
      tensors[change(each.name)] = {each.shape,
                                    {begin, begin + static_cast<std::ptrdiff_t>(each.size)}};
    }
    return tensors;
  }
  static std::string Same(std::string name) { return name; }
  static std::string WithoutPrefix(const std::string& name) { return name.substr(12); }

  // A foreign folder of these tensors.
  std::string Save(const Tensors& tensors, const std::string& config = ConfigJson(kTiny)) const {
    std::vector<std::pair<std::string, TensorInfo>> infos;
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      uint64_t bytes = tensor.values.size() * sizeof(float);
      infos.emplace_back(name, TensorInfo{"F32", tensor.shape, data.size(), data.size() + bytes});
      data.append(reinterpret_cast<const char*>(tensor.values.data()), bytes);
    }
    WriteText(Path("hf/model.safetensors"), FormatSafetensorsHeader(infos) + data);
    WriteText(Path("hf/config.json"), config);
    return Path("hf");
  }

  static void ExpectRead(const std::string& folder) {
    Result<LoadedModel> model = ReadModel(folder);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->shape, kTiny);
    EXPECT_EQ(model->parameters, OwnedState(kTiny, 1).parameters);
  }

  static std::string ErrorOf(const std::string& folder) {
    Result<LoadedModel> model = ReadModel(folder);
    EXPECT_FALSE(model.ok());
    return model.ok() ? "" : model.error().message;
  }

  std::string ErrorWith(const char* name, const nlohmann::json& value) const {
    nlohmann::json config = nlohmann::json::parse(ConfigJson(kTiny));
    config[name] = value;
    return ErrorOf(Save(Model(Same), config.dump()));
  }
};

TEST_F(ReadModelTest, OurOwnCheckpointIsAModel) { ExpectRead(Write("a", OwnedState(kTiny, 1))); }

TEST_F(ReadModelTest, OurOwnCheckpointIsVerified) {
  std::string path = Write("a") + "/model.safetensors";
  std::string text = ReadText(path);
  text.back() = static_cast<char>(text.back() ^ 1);
  WriteText(path, text);
  EXPECT_THAT(ErrorOf(Path("a")), HasSubstr(path + " is corrupt"));
}

TEST_F(ReadModelTest, NamesComeWithAndWithoutTheirPrefix) {
  ExpectRead(Save(Model(Same)));
  ExpectRead(Save(Model(WithoutPrefix)));
}

TEST_F(ReadModelTest, CausalMasksAreLeftOut) {
  Tensors tensors = Model(WithoutPrefix);
  tensors["h.0.attn.bias"] = {{1, 1, 16, 16}, std::vector<float>(256)};
  tensors["h.0.attn.masked_bias"] = {{}, {-10000}};
  ExpectRead(Save(tensors));
}

TEST_F(ReadModelTest, ATiedHeadMayStandBesideTheEmbeddingOrForIt) {
  Tensors tensors = Model(Same);
  tensors["lm_head.weight"] = tensors["transformer.wte.weight"];
  ExpectRead(Save(tensors));
  tensors.erase("transformer.wte.weight");
  ExpectRead(Save(tensors));
}

TEST_F(ReadModelTest, AHeadOfItsOwnIsRefused) {
  Tensors tensors = Model(Same);
  tensors["lm_head.weight"] = tensors["transformer.wte.weight"];
  tensors["lm_head.weight"].values[0] += 1;
  EXPECT_THAT(ErrorOf(Save(tensors)), HasSubstr("lm_head.weight differs"));
}

TEST_F(ReadModelTest, WhatIsMissingOrTooMuchIsNamed) {
  Tensors tensors = Model(Same);
  tensors.erase("transformer.h.1.ln_2.bias");
  EXPECT_THAT(ErrorOf(Save(tensors)), HasSubstr("lacks the tensor transformer.h.1.ln_2.bias"));
  tensors = Model(Same);
  tensors["transformer.h.2.ln_2.bias"] = {{8}, std::vector<float>(8)};
  EXPECT_THAT(ErrorOf(Save(tensors)), HasSubstr("holds the tensor transformer.h.2.ln_2.bias"));
  tensors = Model(Same);
  tensors["transformer.h.0.attn.c_attn.weight"].shape = {24, 8};
  EXPECT_THAT(ErrorOf(Save(tensors)),
              AllOf(HasSubstr("has the shape [24, 8]"), HasSubstr("ask for [8, 24]")));
}

TEST_F(ReadModelTest, AModelThatComputesOtherwiseIsRefused) {
  EXPECT_THAT(ErrorWith("model_type", "llama"), HasSubstr("model_type is \"llama\""));
  EXPECT_THAT(ErrorWith("activation_function", "relu"), HasSubstr("activation_function"));
  EXPECT_THAT(ErrorWith("layer_norm_epsilon", 1e-6), HasSubstr("layer_norm_epsilon"));
  EXPECT_THAT(ErrorWith("n_inner", 31), HasSubstr("n_inner is 31"));
  EXPECT_THAT(ErrorWith("scale_attn_weights", false), HasSubstr("scale_attn_weights"));
  EXPECT_THAT(ErrorWith("scale_attn_by_inverse_layer_idx", true), HasSubstr("inverse_layer"));
  EXPECT_THAT(ErrorWith("tie_word_embeddings", false), HasSubstr("tie_word_embeddings"));
}

TEST_F(ReadModelTest, SizesThatAreNoneAreRefused) {
  EXPECT_THAT(ErrorWith("n_layer", 0), HasSubstr("n_layer is 0"));
  EXPECT_THAT(ErrorWith("n_layer", 1 << 20), HasSubstr("n_layer is 1048576"));
  EXPECT_THAT(ErrorWith("n_embd", "8"), HasSubstr("n_embd is \"8\""));
  EXPECT_THAT(ErrorWith("n_embd", 1 << 30), HasSubstr("n_embd"));
  EXPECT_THAT(ErrorWith("vocab_size", -1), HasSubstr("vocab_size is -1"));
  EXPECT_THAT(ErrorWith("n_head", 3), HasSubstr("no multiple of n_head"));
}

// transformers leaves out what is its own default.
TEST_F(ReadModelTest, AnEmptyConfigIsTheSmallestGpt2) {
  Result<Shape> shape = ShapeOfConfig("{}");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(*shape, (Shape{12, 12, 768, 50257, 1024}));
}

TEST_F(ReadModelTest, WhatIsNoModelSaysWhatToDo) {
  EXPECT_THAT(ErrorOf(Path("nothing")), HasSubstr(Path("nothing/config.json") + " does not exist"));
  fs::remove(Save(Model(Same)) + "/model.safetensors");
  EXPECT_THAT(ErrorOf(Path("hf")), HasSubstr("save_pretrained"));
  EXPECT_THAT(ErrorOf(Save(Model(Same), "{")), HasSubstr("config.json: it is not a JSON object"));
}

}  // namespace
}  // namespace lockstep::trainer
