#include "worker/trainer/checkpoint/hugging_face.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text/json.h"

namespace lockstep::trainer {

namespace {

constexpr int kGpt2Vocabulary = 50257;
constexpr int kGpt2EndOfText = 50256;
constexpr double kLayerNormEpsilon = 1e-5;
// Far beyond any model; the number of parameters fits 64 bits, and their names fit memory.
constexpr int kMaxLayers = 1 << 12;
constexpr int kMaxSize = 1 << 20;

OrderedJson EndOfText(const Shape& shape) {
  if (shape.vocabulary == kByteVocabulary) return 0;
  if (shape.vocabulary == kGpt2Vocabulary) return kGpt2EndOfText;
  return nullptr;
}

void AddSpecialTokens(const Shape& shape, OrderedJson* json) {
  for (const char* name : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    (*json)[name] = EndOfText(shape);
  }
}

// The character that stands for a byte in a ByteLevel vocabulary: itself where Latin-1 has a
// visible character, else the next one from U+0100 on.
char32_t CharacterOf(int byte) {
  auto visible = [](int b) { return (b > 32 && b < 127) || (b > 160 && b != 173); };
  if (visible(byte)) return static_cast<char32_t>(byte);
  char32_t next = 0x100;
  for (int b = 0; b < byte; ++b) next += visible(b) ? 0 : 1;
  return next;
}

// Of a character below U+0800.
std::string Utf8(char32_t character) {
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | (character >> 6)), static_cast<char>(0x80 | (character & 0x3F))};
}

std::string Pretty(const OrderedJson& json) { return DumpJson(json, 2) + "\n"; }

// A positive number of config.json, or the default of transformers' GPT2Config.
Result<int> Size(const OrderedJson& config, const char* name, int standard, int most) {
  OrderedJson value = config.value(name, OrderedJson(standard));
  bool natural =
      value.is_number_integer() && value.get<int64_t>() >= 1 && value.get<int64_t>() <= most;
  if (!natural)
    return Error::Invalid(std::string(name) + " is " + DumpJson(value) + ", not 1 to " +
                          std::to_string(most));
  return value.get<int>();
}

// What Lockstep's model computes; a config that says nothing means the first value.
Status CheckSame(const OrderedJson& config) {
  using Choices = std::pair<const char*, std::vector<OrderedJson>>;
  // The last three activations are one formula under different names.
  const auto kWanted = std::to_array<Choices>({
      {"model_type", {"gpt2"}},
      {"activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"}},
      {"scale_attn_weights", {true}},
      {"scale_attn_by_inverse_layer_idx", {false}},
      {"add_cross_attention", {false}},
      {"tie_word_embeddings", {true}},
  });
  for (const auto& [name, choices] : kWanted) {
    OrderedJson value = config.value(name, choices.front());
    if (std::ranges::find(choices, value) == choices.end()) {
      return Error::Invalid(std::string(name) + " is " + DumpJson(value) +
                            ", but Lockstep's model has " + DumpJson(choices.front()));
    }
  }
  OrderedJson epsilon = config.value("layer_norm_epsilon", OrderedJson(kLayerNormEpsilon));
  if (!epsilon.is_number() || std::abs(epsilon.get<double>() - kLayerNormEpsilon) > 1e-9) {
    return Error::Invalid("layer_norm_epsilon is " + DumpJson(epsilon) +
                          ", but Lockstep's model has 1e-05");
  }
  return {};
}

Status CheckInner(const OrderedJson& config, int width) {
  OrderedJson inner = config.value("n_inner", OrderedJson());
  if (inner.is_null() || inner == OrderedJson(4 * width)) return {};
  return Error::Invalid("n_inner is " + DumpJson(inner) +
                        ", but Lockstep's model has 4 times n_embd");
}

}  // namespace

std::string ConfigJson(const Shape& shape) {
  OrderedJson json = {{"architectures", {"GPT2LMHeadModel"}},
                      {"model_type", "gpt2"},
                      {"n_layer", shape.layers},
                      {"n_head", shape.heads},
                      {"n_embd", shape.width},
                      {"n_inner", nullptr},
                      {"n_positions", shape.context},
                      {"n_ctx", shape.context},
                      {"vocab_size", shape.vocabulary},
                      {"activation_function", "gelu_new"},
                      {"layer_norm_epsilon", kLayerNormEpsilon},
                      {"initializer_range", 0.02},
                      {"scale_attn_weights", true},
                      {"tie_word_embeddings", true},
                      {"attn_pdrop", 0.0},
                      {"embd_pdrop", 0.0},
                      {"resid_pdrop", 0.0},
                      {"torch_dtype", "float32"},
                      {"use_cache", true}};
  AddSpecialTokens(shape, &json);
  return Pretty(json);
}

std::string GenerationConfigJson(const Shape& shape) {
  OrderedJson json = {{"max_length", shape.context}};
  AddSpecialTokens(shape, &json);
  return Pretty(json);
}

std::string ByteTokenizerJson() {
  OrderedJson vocabulary;
  for (int byte = 0; byte < kByteVocabulary; ++byte) vocabulary[Utf8(CharacterOf(byte))] = byte;
  OrderedJson byte_level = {{"type", "ByteLevel"},
                            {"add_prefix_space", false},
                            {"trim_offsets", false},
                            {"use_regex", false}};
  return Pretty({{"version", "1.0"},
                 {"truncation", nullptr},
                 {"padding", nullptr},
                 {"added_tokens", OrderedJson::array()},
                 {"normalizer", nullptr},
                 {"pre_tokenizer", byte_level},
                 {"post_processor", nullptr},
                 {"decoder", byte_level},
                 {"model",
                  {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", nullptr},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", false},
                   {"byte_fallback", false},
                   {"vocab", vocabulary},
                   {"merges", OrderedJson::array()}}}});
}

std::string TokenizerConfigJson(const Shape& shape) {
  // No special tokens: one would be found in a text that holds its characters.
  return Pretty({{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"model_max_length", shape.context},
                 {"clean_up_tokenization_spaces", false},
                 {"model_input_names", {"input_ids", "attention_mask"}}});
}

Result<Shape> ShapeOfConfig(std::string_view config_json) {
  OrderedJson config = ParseOrderedJson(config_json);
  if (!config.is_object()) return Error::Invalid("it is not a JSON object");
  Status same = CheckSame(config);
  if (!same.ok()) return same.error();
  Shape shape;
  struct Field {
    const char* name;
    int standard;
    int most;
    int* value;
  };
  for (const Field& field :
       {Field{"n_layer", 12, kMaxLayers, &shape.layers},
        Field{"n_head", 12, kMaxSize, &shape.heads}, Field{"n_embd", 768, kMaxSize, &shape.width},
        Field{"n_positions", 1024, kMaxSize, &shape.context},
        Field{"vocab_size", kGpt2Vocabulary, kMaxSize, &shape.vocabulary}}) {
    Result<int> size = Size(config, field.name, field.standard, field.most);
    if (!size.ok()) return size.error();
    *field.value = *size;
  }
  if (shape.width % shape.heads != 0) {
    return Error::Invalid("n_embd is " + std::to_string(shape.width) + ", no multiple of n_head, " +
                          std::to_string(shape.heads));
  }
  Status inner = CheckInner(config, shape.width);
  if (!inner.ok()) return inner.error();
  return shape;
}

}  // namespace lockstep::trainer
