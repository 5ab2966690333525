#include "worker/trainer/data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

namespace lockstep::trainer {

namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr int32_t kMagic = 20240520;
constexpr int32_t kVersion = 1;
constexpr uint64_t kHeaderBytes = 256 * sizeof(int32_t);

Error NoTokens(const std::string& path) {
  return Error::Invalid(path + " ends in .bin but does not begin with llm.c's magic " +
                        std::to_string(kMagic) +
                        "; write it with llm.c's scripts in dev/data (nanoGPT's files lack the "
                        "header), or, to train on its bytes, give it another name");
}

// The number of tokens that an llm.c file holds.
Result<int64_t> ReadHeader(const InputFile& file) {
  const std::string& path = file.path();
  std::array<int32_t, 3> header{};  // magic, version, tokens
  if (file.size() < kHeaderBytes) {
    return Error::Invalid(path + " is cut off within its header of 1024 bytes; write it again");
  }
  Status read = file.ReadAt(0, std::as_writable_bytes(std::span(header)));
  if (!read.ok()) return read.error();
  if (header[1] != kVersion) {
    return Error::Invalid(path + " is of version " + std::to_string(header[1]) +
                          " of llm.c's format; write it as version 1, with 16-bit tokens");
  }
  uint64_t expected = kHeaderBytes + sizeof(uint16_t) * static_cast<uint64_t>(header[2]);
  if (header[2] < 0 || file.size() != expected) {
    return Error::Invalid(path + " has " + std::to_string(file.size()) + " bytes, but " +
                          std::to_string(expected) + " by its header (" +
                          std::to_string(header[2]) +
                          " tokens); it is cut off or still being written: write it again");
  }
  return header[2];
}

template <typename T>
void Widen(std::span<const std::byte> bytes, std::span<int32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    T token;
    std::memcpy(&token, bytes.data() + i * sizeof(T), sizeof(T));
    tokens[i] = static_cast<int32_t>(token);
  }
}

}  // namespace

TokenFile::TokenFile(InputFile file, int token_bytes, int64_t tokens)
    : path_(file.path()),
      bytes_(file.size()),
      token_bytes_(token_bytes),
      tokens_(tokens),
      file_(std::move(file)) {}

Result<TokenFile> TokenFile::Open(const std::string& path) {
  Result<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.error();
  if (file->size() == 0) {
    return Error::Invalid(path + " is empty; fill it, or leave it out of the data");
  }
  int32_t magic = 0;
  if (file->size() >= sizeof(magic)) {
    Status read = file->ReadAt(0, std::as_writable_bytes(std::span(&magic, 1)));
    if (!read.ok()) return read.error();
  }
  if (magic != kMagic) {
    if (path.ends_with(".bin")) return NoTokens(path);
    auto tokens = static_cast<int64_t>(file->size());
    return TokenFile(std::move(*file), 1, tokens);
  }
  Result<int64_t> tokens = ReadHeader(*file);
  if (!tokens.ok()) return tokens.error();
  return TokenFile(std::move(*file), sizeof(uint16_t), *tokens);
}

Status TokenFile::Read(int64_t first, int vocabulary, std::span<int32_t> tokens) const {
  std::vector<std::byte> bytes(tokens.size() * static_cast<size_t>(token_bytes_));
  Status read = ReadBytes(OffsetOf(first), bytes);
  if (!read.ok()) return read;
  if (token_bytes_ == 1) {
    Widen<uint8_t>(bytes, tokens);
  } else {
    Widen<uint16_t>(bytes, tokens);
  }
  auto foreign =
      std::ranges::find_if(tokens, [vocabulary](int32_t token) { return token >= vocabulary; });
  if (foreign == tokens.end()) return {};
  return Error::Invalid(path_ + ": token " + std::to_string(first + (foreign - tokens.begin())) +
                        " is " + std::to_string(*foreign) + ", but the model's vocabulary is " +
                        std::to_string(vocabulary) +
                        "; give the model a vocabulary that holds it, or other data");
}

void TokenFile::Prefetch(int64_t first, size_t count) const {
  if (file_) file_->Prefetch(OffsetOf(first), count * static_cast<size_t>(token_bytes_));
}

uint64_t TokenFile::OffsetOf(int64_t token) const {
  const uint64_t header = token_bytes_ == 1 ? 0 : kHeaderBytes;
  return header + static_cast<uint64_t>(token) * static_cast<uint64_t>(token_bytes_);
}

Status TokenFile::ReadBytes(uint64_t offset, std::span<std::byte> bytes) const {
  if (file_) return file_->ReadAt(offset, bytes);
  Result<InputFile> file = InputFile::Open(path_);
  if (!file.ok()) return Error::Unavailable(file.error().message);
  if (file->size() < bytes_) {
    return Error::Unavailable(path_ + " has " + std::to_string(file->size()) + " bytes, of " +
                              std::to_string(bytes_) +
                              " at the start; do not change the files of a running job; start "
                              "it again to use the new ones");
  }
  return file->ReadAt(offset, bytes);
}

}  // namespace lockstep::trainer
