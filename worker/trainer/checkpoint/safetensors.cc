#include "worker/trainer/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "base/text/json.h"
#include "worker/trainer/checkpoint/float16.h"

namespace lockstep::trainer {

namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr uint64_t kSizeBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

uint64_t DtypeBytes(std::string_view dtype) {
  constexpr auto kTypes = std::to_array<std::pair<std::string_view, uint64_t>>({{"F64", 8},
                                                                                {"F32", 4},
                                                                                {"F16", 2},
                                                                                {"BF16", 2},
                                                                                {"F8_E4M3", 1},
                                                                                {"F8_E5M2", 1},
                                                                                {"I64", 8},
                                                                                {"I32", 4},
                                                                                {"I16", 2},
                                                                                {"I8", 1},
                                                                                {"U64", 8},
                                                                                {"U32", 4},
                                                                                {"U16", 2},
                                                                                {"U8", 1},
                                                                                {"BOOL", 1}});
  const auto* found = std::ranges::find(kTypes, dtype, &decltype(kTypes)::value_type::first);
  return found == kTypes.end() ? 0 : found->second;
}

Error TensorError(const std::string& name, const std::string& what) {
  return Error::Invalid("tensor " + name + " " + what);
}

std::optional<std::vector<int64_t>> Naturals(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Json& each : json) {
    if (!each.is_number_unsigned()) return std::nullopt;
    auto number = each.get<uint64_t>();
    if (number > std::numeric_limits<int64_t>::max()) return std::nullopt;
    numbers.push_back(static_cast<int64_t>(number));
  }
  return numbers;
}

// nullopt: more than 64 bits hold.
std::optional<uint64_t> ProductOf(uint64_t product, std::span<const int64_t> factors) {
  for (int64_t factor : factors) {
    if (__builtin_mul_overflow(product, static_cast<uint64_t>(factor), &product)) {
      return std::nullopt;
    }
  }
  return product;
}

Result<TensorInfo> ParseTensor(const std::string& name, const Json& json) {
  if (!json.is_object()) return TensorError(name, "is described by no object");
  Json dtype = json.value("dtype", Json());
  auto shape = Naturals(json.value("shape", Json()));
  auto offsets = Naturals(json.value("data_offsets", Json()));
  if (!dtype.is_string() || DtypeBytes(dtype.get<std::string>()) == 0) {
    return TensorError(name, "has an unknown type");
  }
  if (!shape) return TensorError(name, "has no shape");
  if (!offsets || offsets->size() != 2) return TensorError(name, "has no data_offsets");
  TensorInfo info = {.dtype = dtype.get<std::string>(),
                     .shape = *shape,
                     .begin = static_cast<uint64_t>((*offsets)[0]),
                     .end = static_cast<uint64_t>((*offsets)[1])};
  if (info.end < info.begin) return TensorError(name, "ends before it begins");
  if (ProductOf(DtypeBytes(info.dtype), info.shape) != info.end - info.begin) {
    return TensorError(name, "has a shape of " + ToString(info.shape) + " " + info.dtype +
                                 ", but data of " + std::to_string(info.end - info.begin) +
                                 " bytes");
  }
  return info;
}

Status CheckMetadata(const Json& json) {
  bool texts = json.is_object() &&
               std::ranges::all_of(json, [](const Json& value) { return value.is_string(); });
  if (!texts) return Error::Invalid("__metadata__ is not a map of texts");
  return {};
}

// One behind the other, from the first byte of the data to the last.
Status CheckLayout(const TensorMap& tensors, uint64_t data_bytes) {
  std::vector<const TensorMap::value_type*> order;
  order.reserve(tensors.size());
  for (const auto& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, {}, [](const TensorMap::value_type* tensor) {
    return std::pair(tensor->second.begin, tensor->second.end);
  });
  uint64_t end = 0;
  for (const auto* tensor : order) {
    if (tensor->second.begin != end) {
      return TensorError(tensor->first, "begins at byte " + std::to_string(tensor->second.begin) +
                                            " of the data, but what is before it ends at " +
                                            std::to_string(end));
    }
    end = tensor->second.end;
  }
  if (end == data_bytes) return {};
  return Error::Invalid("its tensors take " + std::to_string(end) + " bytes, but there are " +
                        std::to_string(data_bytes) + "; the file is cut off or not of this format");
}

// Reads `values.size()` numbers of 16 bits at `offset` and widens them.
template <typename WidenFunction>
Status ReadWidened(const InputFile& file, uint64_t offset, WidenFunction widen,
                   std::span<float> values) {
  std::vector<uint16_t> bits(std::min<size_t>(values.size(), 1 << 18));
  while (!values.empty()) {
    std::span<uint16_t> piece = std::span(bits).first(std::min(bits.size(), values.size()));
    Status read = file.ReadAt(offset, std::as_writable_bytes(piece));
    if (!read.ok()) return read;
    std::ranges::transform(piece, values.begin(), widen);
    offset += piece.size_bytes();
    values = values.subspan(piece.size());
  }
  return {};
}

Error FileError(const std::string& path, const std::string& what) {
  return Error::Invalid(path + ": " + what);
}

}  // namespace

std::string ToString(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

std::string FormatSafetensorsHeader(std::span<const std::pair<std::string, TensorInfo>> tensors) {
  OrderedJson json;
  json[kMetadata] = {{"format", "pt"}};
  for (const auto& [name, info] : tensors) {
    json[name] = {
        {"dtype", info.dtype}, {"shape", info.shape}, {"data_offsets", {info.begin, info.end}}};
  }
  std::string text = DumpJson(json);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t size = text.size();
  std::string bytes(kSizeBytes, '\0');
  std::memcpy(bytes.data(), &size, kSizeBytes);
  return bytes + text;
}

Result<TensorMap> ParseSafetensorsHeader(std::string_view header, uint64_t data_bytes) {
  // The format wants it so, and it refuses deep nonsense early.
  if (!header.starts_with('{')) return Error::Invalid("its header is not a JSON object");
  Json json = ParseJson(header);
  if (!json.is_object()) return Error::Invalid("its header is not a JSON object");
  TensorMap tensors;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata) {
      Status metadata = CheckMetadata(value);
      if (!metadata.ok()) return metadata.error();
      continue;
    }
    Result<TensorInfo> info = ParseTensor(name, value);
    if (!info.ok()) return info.error();
    tensors.emplace(name, std::move(*info));
  }
  Status layout = CheckLayout(tensors, data_bytes);
  if (!layout.ok()) return layout.error();
  return tensors;
}

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  Result<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.error();
  uint64_t size = 0;
  if (file->size() < kSizeBytes) return FileError(path, "it is cut off within its first 8 bytes");
  Status read = file->ReadAt(0, std::as_writable_bytes(std::span(&size, 1)));
  if (!read.ok()) return read.error();
  if (size > kMaxHeaderBytes) {
    return FileError(path, "its header has " + std::to_string(size) +
                               " bytes, 100 MB are possible; it is corrupt or not safetensors");
  }
  if (size > file->size() - kSizeBytes) return FileError(path, "it is cut off within its header");
  std::string header(size, '\0');
  read = file->ReadAt(kSizeBytes, std::as_writable_bytes(std::span(header)));
  if (!read.ok()) return read.error();
  uint64_t data = kSizeBytes + size;
  Result<TensorMap> tensors = ParseSafetensorsHeader(header, file->size() - data);
  if (!tensors.ok()) return FileError(path, tensors.error().message);
  return SafetensorsFile(std::move(*file), std::move(*tensors), data);
}

Status SafetensorsFile::Read(const std::string& name, std::span<const int64_t> shape,
                             std::span<float> values) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) return Error::NotFound(path() + ": it has no tensor " + name);
  const TensorInfo& info = found->second;
  if (!std::ranges::equal(info.shape, shape)) {
    return FileError(path(), "tensor " + name + " has the shape " + ToString(info.shape) +
                                 ", the model needs " + ToString(shape));
  }
  if (info.dtype == "F32") {
    return file_.ReadAt(data_ + info.begin, std::as_writable_bytes(values));
  }
  if (info.dtype == "F16") return ReadWidened(file_, data_ + info.begin, WidenF16, values);
  if (info.dtype == "BF16") return ReadWidened(file_, data_ + info.begin, WidenBf16, values);
  return FileError(path(), "tensor " + name + " is of type " + info.dtype +
                               "; save the model as F32, F16 or BF16");
}

}  // namespace lockstep::trainer
