// The tokens of one file: of a text its bytes; of llm.c's format (256 int32, of which the first are
// magic 20240520, version 1 and the number of tokens, then uint16 tokens; all little-endian) those.
#ifndef LOCKSTEP_WORKER_TRAINER_DATA_TOKEN_FILE_H_
#define LOCKSTEP_WORKER_TRAINER_DATA_TOKEN_FILE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "worker/trainer/data/input_file.h"

namespace lockstep::trainer {

class TokenFile {
 public:
  // Tells the formats apart by their first bytes. Besides InputFile's errors, kInvalid: empty,
  // shorter or longer than its header says, of another version, or named .bin without the magic.
  static Result<TokenFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }
  int64_t tokens() const { return tokens_; }

  // Tokens [first, first + tokens.size()), all within tokens(). kInvalid names the first one that
  // is not below `vocabulary`; kUnavailable: the file shrank, is gone, or can't be read.
  Status Read(int64_t first, int vocabulary, std::span<int32_t> tokens) const;

  // Tokens that are read soon. Does nothing for a file that is closed.
  void Prefetch(int64_t first, size_t count) const;

  // From now on each Read opens the file: a process may hold only so many open ones.
  void Close() { file_.reset(); }

 private:
  TokenFile(InputFile file, int token_bytes, int64_t tokens);

  uint64_t OffsetOf(int64_t token) const;
  Status ReadBytes(uint64_t offset, std::span<std::byte> bytes) const;

  std::string path_;
  uint64_t bytes_ = 0;
  int token_bytes_ = 1;
  int64_t tokens_ = 0;
  std::optional<InputFile> file_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_DATA_TOKEN_FILE_H_
