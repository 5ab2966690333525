#include "worker/trainer/data/dataset.h"

#include <algorithm>
#include <cassert>
#include <filesystem>
#include <utility>

#include "base/crypto/sha256.h"
#include "worker/trainer/data/find_files.h"
#include "worker/trainer/data/shuffle.h"
#include "worker/trainer/data/token_file.h"

namespace lockstep::trainer {

namespace {

// How many files stay open. A process may commonly have 1024 descriptors, sockets included.
constexpr size_t kOpenFiles = 256;
// Bytes of a file's beginning, and of its end, that the fingerprint covers.
constexpr uint64_t kSampleBytes = 4096;

Status AddSample(const std::string& path, Sha256* digest) {
  Result<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.error();
  // Its name without the folders: a volume may be mounted elsewhere when a job goes on.
  std::string name = std::filesystem::path(path).filename().string();
  uint64_t size = file->size();
  digest->Add(std::as_bytes(std::span(name.c_str(), name.size() + 1)));
  digest->Add(std::as_bytes(std::span(&size, 1)));
  std::vector<std::byte> sample(std::min(size, kSampleBytes));
  for (uint64_t offset : {uint64_t{0}, size - sample.size()}) {
    Status read = file->ReadAt(offset, sample);
    if (!read.ok()) return read;
    digest->Add(sample);
  }
  return {};
}

}  // namespace

struct Dataset::State {
  explicit State(const Options& given) : options(given) {}

  Options options;
  std::vector<TokenFile> files;
  std::vector<int64_t> ends;  // of each file's sequences in the row of all
  int64_t tokens = 0;
  std::string fingerprint;

  int64_t sequences() const { return ends.empty() ? 0 : ends.back(); }
  Error Of(const Error& error) const;
  Status Add(const std::string& path);
  Status CheckSize() const;
  Status TakeFingerprint();

  // Where sequence n of the row lies.
  struct Place {
    const TokenFile* file;
    int64_t first;  // token
  };
  Place Find(int64_t n) const;
};

// The error with the name of what a job calls these data.
Error Dataset::State::Of(const Error& error) const {
  return {error.kind,
          (options.use == Use::kTraining ? "data: " : "validationData: ") + error.message};
}

Status Dataset::State::Add(const std::string& path) {
  Result<TokenFile> file = TokenFile::Open(path);
  if (!file.ok()) return file.error();
  if (files.size() >= kOpenFiles) file->Close();
  tokens += file->tokens();
  // A sequence's last token is the next one's first; a file's rest is left out.
  int64_t cut = std::max<int64_t>(0, file->tokens() - 1) / options.sequence_length;
  ends.push_back(sequences() + cut);
  files.push_back(std::move(*file));
  return {};
}

Status Dataset::State::CheckSize() const {
  int64_t wanted = std::max<int64_t>(1, options.at_least);
  if (sequences() >= wanted) return {};
  const bool training = options.use == Use::kTraining;
  return Error::Invalid(std::to_string(files.size()) + " file(s) with " + std::to_string(tokens) +
                        " tokens hold " + std::to_string(sequences()) + " sequences of " +
                        std::to_string(options.sequence_length) + " tokens, but a " +
                        (training ? "step" : "micro-batch") + " takes " + std::to_string(wanted) +
                        " (the first is " + files.front().path() + "); add data, or lower " +
                        (training ? "globalBatchSize" : "microBatchSize") + " or sequenceLength");
}

Status Dataset::State::TakeFingerprint() {
  Sha256 digest;
  for (const TokenFile& file : files) {
    Status added = AddSample(file.path(), &digest);
    if (!added.ok()) return added;
  }
  fingerprint = std::to_string(files.size()) + " files, " + std::to_string(tokens) +
                " tokens in sequences of " + std::to_string(options.sequence_length) + ", sha256 " +
                digest.Hex().substr(0, 16);
  return {};
}

Result<Dataset> Dataset::Open(const Options& options) {
  auto state = std::make_unique<State>(options);
  if (options.sequence_length < 1 || options.vocabulary < 1) {
    return state->Of(Error::Invalid("a sequence length of " +
                                    std::to_string(options.sequence_length) +
                                    " and a vocabulary of " + std::to_string(options.vocabulary) +
                                    " are given; both must be at least 1"));
  }
  Result<std::vector<std::string>> paths = FindFiles(options.globs);
  if (!paths.ok()) return state->Of(paths.error());
  Status checked;
  for (const std::string& path : *paths) {
    if (checked.ok()) checked = state->Add(path);
  }
  if (checked.ok()) checked = state->CheckSize();
  if (checked.ok()) checked = state->TakeFingerprint();
  if (!checked.ok()) return state->Of(checked.error());
  return Dataset(std::move(state));
}

Dataset::Dataset(std::unique_ptr<State> state) : state_(std::move(state)) {}
Dataset::~Dataset() = default;
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;

int64_t Dataset::size() const { return state_->sequences(); }

int64_t Dataset::tokens() const { return state_->tokens; }

std::string Dataset::Fingerprint() const { return state_->fingerprint; }

Dataset::State::Place Dataset::State::Find(int64_t n) const {
  const int64_t epoch_size = sequences();
  assert(n >= 0 && epoch_size > 0);
  Shuffle order(options.seed, static_cast<uint64_t>(n / epoch_size),
                static_cast<uint64_t>(epoch_size));
  auto sequence = static_cast<int64_t>(order(static_cast<uint64_t>(n % epoch_size)));
  auto end = std::ranges::upper_bound(ends, sequence);
  auto index = static_cast<size_t>(end - ends.begin());
  int64_t begin = index == 0 ? 0 : ends[index - 1];
  return {&files[index], (sequence - begin) * options.sequence_length};
}

void Dataset::Prefetch(int64_t n) const {
  const State::Place place = state_->Find(n);
  place.file->Prefetch(place.first, static_cast<size_t>(state_->options.sequence_length) + 1);
}

Status Dataset::Read(int64_t n, std::span<int32_t> inputs, std::span<int32_t> targets) const {
  auto length = static_cast<size_t>(state_->options.sequence_length);
  assert(inputs.size() == length && targets.size() == length);
  const State::Place place = state_->Find(n);
  std::vector<int32_t> tokens(length + 1);
  Status read = place.file->Read(place.first, state_->options.vocabulary, tokens);
  if (!read.ok()) return state_->Of(read.error());
  std::copy(tokens.begin(), tokens.end() - 1, inputs.begin());
  std::copy(tokens.begin() + 1, tokens.end(), targets.begin());
  return {};
}

}  // namespace lockstep::trainer
