// The file format `safetensors` (https://github.com/huggingface/safetensors), format part of its
// README: 8 bytes N, little-endian; N bytes of JSON, {"name": {"dtype": "F32", "shape": [2, 3],
// "data_offsets": [begin, end]}, ..., "__metadata__": {"key": "value"}}; then the data, in which
// the offsets count, all of it used and none of it twice.
#ifndef LOCKSTEP_WORKER_TRAINER_CHECKPOINT_SAFETENSORS_H_
#define LOCKSTEP_WORKER_TRAINER_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "worker/trainer/data/input_file.h"

namespace lockstep::trainer {

struct TensorInfo {
  std::string dtype;  // "F32", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes, in the data
  uint64_t end = 0;

  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

using TensorMap = std::map<std::string, TensorInfo, std::less<>>;

// "[2, 3]".
std::string ToString(std::span<const int64_t> shape);

// All before the data: size, JSON with {"format": "pt"} as metadata, which transformers asks for,
// and blanks up to a multiple of 8 bytes. `tensors` in the order of their data.
std::string FormatSafetensorsHeader(std::span<const std::pair<std::string, TensorInfo>> tensors);

// The tensors that the JSON `header` of a file with `data_bytes` of data describes. kInvalid says
// what is wrong: no such JSON, an unknown type, a size that doesn't follow from the shape, data
// beyond the end, used twice or not at all.
Result<TensorMap> ParseSafetensorsHeader(std::string_view header, uint64_t data_bytes);

class SafetensorsFile {
 public:
  // Besides ParseSafetensorsHeader's and InputFile's errors, kInvalid: cut off, or with a header
  // of more than 100 MB, which is the format's limit. All name the file.
  static Result<SafetensorsFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const TensorMap& tensors() const { return tensors_; }

  // A tensor of F32, F16 or BF16 into `values`, as floats. kNotFound: no tensor of that name.
  // kInvalid: it has another shape, both of which are named, or another type.
  Status Read(const std::string& name, std::span<const int64_t> shape,
              std::span<float> values) const;

 private:
  SafetensorsFile(InputFile file, TensorMap tensors, uint64_t data)
      : file_(std::move(file)), tensors_(std::move(tensors)), data_(data) {}

  InputFile file_;
  TensorMap tensors_;
  uint64_t data_;  // where it begins
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CHECKPOINT_SAFETENSORS_H_
