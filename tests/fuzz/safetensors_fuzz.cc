// Any header of a safetensors file is refused, or describes tensors that use each byte of the data
// once; what is accepted is the same after it was written and read again. The first two bytes say
// how much data there is.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/trainer/checkpoint/safetensors.h"

namespace {

using lockstep::Result;
using lockstep::trainer::FormatSafetensorsHeader;
using lockstep::trainer::ParseSafetensorsHeader;
using lockstep::trainer::TensorInfo;
using lockstep::trainer::TensorMap;

void Check(const TensorMap& tensors, uint64_t data_bytes) {
  std::vector<std::pair<std::string, TensorInfo>> order(tensors.begin(), tensors.end());
  std::ranges::sort(order, {}, [](const auto& tensor) {
    return std::pair(tensor.second.begin, tensor.second.end);
  });
  uint64_t end = 0;
  for (const auto& [name, info] : order) {
    if (info.begin != end || info.end < info.begin) std::abort();
    end = info.end;
  }
  if (end != data_bytes) std::abort();
  Result<TensorMap> again =
      ParseSafetensorsHeader(FormatSafetensorsHeader(order).substr(8), data_bytes);
  if (!again.ok() || *again != tensors) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  uint64_t data_bytes = data[0] | static_cast<uint64_t>(data[1]) << 8;
  std::string_view header(reinterpret_cast<const char*>(data) + 2, size - 2);
  Result<TensorMap> tensors = ParseSafetensorsHeader(header, data_bytes);
  if (tensors.ok()) Check(*tensors, data_bytes);
  return 0;
}
