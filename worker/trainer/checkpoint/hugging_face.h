// The small files that make a folder a model of Hugging Face's: what transformers 4.37 reads of
// them, and what Lockstep needs of those that transformers wrote.
#ifndef LOCKSTEP_WORKER_TRAINER_CHECKPOINT_HUGGING_FACE_H_
#define LOCKSTEP_WORKER_TRAINER_CHECKPOINT_HUGGING_FACE_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "worker/trainer/model/shape.h"

namespace lockstep::trainer {

// A vocabulary of so many tokens is taken for bytes.
inline constexpr int kByteVocabulary = 256;

// config.json. With bytes, the byte 0, which no text holds, ends a text; with GPT-2's 50257 tokens
// its <|endoftext|>; else nothing does.
std::string ConfigJson(const Shape& shape);

// generation_config.json: a text grows to the model's context unless the caller says otherwise.
std::string GenerationConfigJson(const Shape& shape);

// tokenizer.json: the token of a byte is its value, so any text and its tokens have one form.
std::string ByteTokenizerJson();

// tokenizer_config.json.
std::string TokenizerConfigJson(const Shape& shape);

// kInvalid: no GPT-2, or one that computes otherwise than Lockstep's (another activation, epsilon,
// inner width, ...), which is named.
Result<Shape> ShapeOfConfig(std::string_view config_json);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CHECKPOINT_HUGGING_FACE_H_
