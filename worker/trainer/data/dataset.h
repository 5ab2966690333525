// The tokens to train on, as one endless row of sequences in a shuffled order.
//
// Text files are bytes: token = byte. Files of llm.c's format (256 int32, magic 20240520, then
// uint16 tokens) are recognised by their magic. Files are taken in the order of their names, and
// read in place, so data may be larger than memory (input_file.h says why not by a memory map).
// Each is cut into sequences of T + 1 tokens of which neighbours share one, so no sequence spans
// two files. Sequence n of the row is sequence Shuffle(seed, n / size())(n mod size()) of the
// files.
#ifndef LOCKSTEP_WORKER_TRAINER_DATA_DATASET_H_
#define LOCKSTEP_WORKER_TRAINER_DATA_DATASET_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep::trainer {

class Dataset {
 public:
  enum class Use : uint8_t { kTraining, kValidation };

  struct Options {
    std::vector<std::string> globs;
    int sequence_length = 0;  // T
    int vocabulary = 0;       // tokens must be below it
    int64_t at_least = 1;     // sequences, else kInvalid: one global batch, or micro-batch
    uint64_t seed = 0;
    Use use = Use::kTraining;  // for errors
  };

  // Every error names the file or the glob, and what to do.
  static Result<Dataset> Open(const Options& options);
  ~Dataset();
  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) noexcept;

  int64_t size() const;    // sequences in an epoch
  int64_t tokens() const;  // in all files
  // Names, sizes and a checksum of the files' first and last bytes: what a checkpoint's cursor
  // counts in. A different one means different data.
  std::string Fingerprint() const;

  // Sequence n >= 0 of the row: inputs and targets [T] each, targets one token further. Any thread.
  // kUnavailable names the file that shrank or can't be read; kInvalid the token that the
  // vocabulary lacks.
  Status Read(int64_t n, std::span<int32_t> inputs, std::span<int32_t> targets) const;
  // Sequence n is read soon: lets the kernel read it into its cache, and does not wait for it.
  void Prefetch(int64_t n) const;

 private:
  struct State;
  explicit Dataset(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_DATA_DATASET_H_
