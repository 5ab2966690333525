#include "worker/trainer/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>

#include "tests/worker/trainer/checkpoint/checkpoint_test_base.h"
#include "worker/trainer/checkpoint/manifest.h"
#include "worker/trainer/checkpoint/safetensors.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointTest : public CheckpointTestBase {
 protected:
  static Error ReadError(const std::string& folder, const Shape& shape = kTiny) {
    OwnedState state(shape);
    Result<Manifest> manifest = ReadCheckpoint(folder, shape, state.view());
    EXPECT_FALSE(manifest.ok());
    return manifest.ok() ? Error{} : manifest.error();
  }
};

// Files may grow to `bytes` only while it lives, as on a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(CheckpointTest, WhatIsReadIsWhatWasWritten) {
  OwnedState state(kTiny, 3);
  state.parameters[7] = -0.0F;
  state.moment1[0] = std::numeric_limits<float>::denorm_min();
  std::string folder = Write("step-1200", state);
  OwnedState read(kTiny);
  Result<Manifest> manifest = ReadCheckpoint(folder, kTiny, read.view());
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_EQ(*manifest, SomeManifest());
  EXPECT_EQ(read, state);
  EXPECT_TRUE(std::signbit(read.parameters[7]));
}

TEST_F(CheckpointTest, TheSameStateIsTheSameBytes) {
  Write("a");
  Write("b");
  for (const auto& file : fs::directory_iterator(Path("a"))) {
    EXPECT_EQ(ReadText(file.path()), ReadText(Path("b") / file.path().filename()));
  }
}

TEST_F(CheckpointTest, AModelOfBytesHasATokenizer) {
  std::string folder = Write("bytes");
  EXPECT_TRUE(fs::exists(folder + "/tokenizer.json"));
  Shape words = kTiny;
  words.vocabulary = 300;
  OwnedState state(words);
  ASSERT_TRUE(WriteCheckpoint(Path("words"), words, state.saved(), SomeManifest()).ok());
  EXPECT_FALSE(fs::exists(Path("words/tokenizer.json")));
  EXPECT_FALSE(fs::exists(Path("words/tokenizer_config.json")));
  EXPECT_TRUE(ReadCheckpoint(Path("words"), words, state.view()).ok());
}

TEST_F(CheckpointTest, ALossThatIsNoNumberIsKept) {
  Manifest manifest = SomeManifest();
  manifest.loss = std::numeric_limits<double>::quiet_NaN();
  OwnedState state(kTiny);
  ASSERT_TRUE(WriteCheckpoint(Path("a"), kTiny, state.saved(), manifest).ok());
  Result<Manifest> read = ReadCheckpoint(Path("a"), kTiny, state.view());
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(std::isnan(read->loss));
}

TEST_F(CheckpointTest, WithoutAManifestThereIsNoCheckpoint) {
  EXPECT_EQ(ReadError(Path("nothing")).kind, ErrorKind::kNotFound);
  std::string folder = Write("a");
  fs::remove(folder + "/manifest.json");
  EXPECT_EQ(ReadError(folder).kind, ErrorKind::kNotFound);
}

TEST_F(CheckpointTest, AnotherShapeIsNamedBesideOurs) {
  Shape wide = kTiny;
  wide.width = 10;
  Error error = ReadError(Write("a"), wide);
  EXPECT_EQ(error.kind, ErrorKind::kInvalid);
  EXPECT_THAT(error.message, AllOf(HasSubstr(ToString(kTiny)), HasSubstr(ToString(wide))));
}

TEST_F(CheckpointTest, EachFileThatIsMissingTornOrCorruptIsNamed) {
  std::string folder = Write("a");
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "config.json",
                           "generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    std::string path = folder + "/" + name;
    std::string text = ReadText(path);
    fs::remove(path);
    EXPECT_THAT(ReadError(folder).message, HasSubstr(path + " is missing"));
    WriteText(path, text.substr(0, text.size() - 1));
    EXPECT_THAT(ReadError(folder).message, HasSubstr(path + " is torn"));
    for (size_t at : {size_t{0}, text.size() / 2, text.size() - 1}) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ 1);
      WriteText(path, changed);
      Error error = ReadError(folder);
      EXPECT_EQ(error.kind, ErrorKind::kInvalid);
      EXPECT_THAT(error.message, HasSubstr(path + " is corrupt"));
    }
    WriteText(path, text);
  }
  OwnedState state(kTiny);
  EXPECT_TRUE(ReadCheckpoint(folder, kTiny, state.view()).ok());
}

TEST_F(CheckpointTest, AManifestIsGoodToTheLastBit) {
  std::string path = Write("a") + "/manifest.json";
  std::string text = ReadText(path);
  ASSERT_TRUE(ParseManifest(text).ok());
  for (size_t at = 0; at + 1 < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    // Blanks between the members say nothing.
    bool blank = text[at] == ' ' || text[at] == '\n';
    EXPECT_TRUE(blank || !ParseManifest(changed).ok()) << "byte " << at;
    EXPECT_FALSE(ParseManifest(text.substr(0, at)).ok()) << "byte " << at;
  }
  WriteText(path, text.substr(0, text.size() / 2));
  Error error = ReadError(Path("a"));
  EXPECT_EQ(error.kind, ErrorKind::kInvalid);
  EXPECT_THAT(error.message, HasSubstr(path + ": it is torn"));
}

TEST_F(CheckpointTest, ACorruptCheckpointLeavesTheStateAlone) {
  std::string folder = Write("a", OwnedState(kTiny, 100));
  std::string path = folder + "/optimizer.safetensors";
  std::string text = ReadText(path);
  text.back() = static_cast<char>(text.back() ^ 1);
  WriteText(path, text);
  OwnedState state(kTiny, 5);
  EXPECT_FALSE(ReadCheckpoint(folder, kTiny, state.view()).ok());
  EXPECT_EQ(state, OwnedState(kTiny, 5));
}

TEST_F(CheckpointTest, AFullDiskLeavesNothingBehind) {
  OwnedState state(kTiny);
  Write("whole");
  std::vector<uintmax_t> limits = {0, 100};
  for (const auto& file : fs::directory_iterator(Path("whole"))) {
    limits.push_back(file.file_size() - 1);
  }
  for (uintmax_t limit : limits) {
    Status written;
    {
      FullDisk full(limit);
      written = WriteCheckpoint(Path("a"), kTiny, state.saved(), SomeManifest());
    }
    uintmax_t largest = fs::file_size(Path("whole/optimizer.safetensors"));
    ASSERT_EQ(written.ok(), limit >= largest) << limit;
    if (written.ok()) continue;
    EXPECT_EQ(written.error().kind, ErrorKind::kUnavailable);
    EXPECT_THAT(written.error().message,
                AllOf(HasSubstr("writing " + Path("a/")), HasSubstr("free space")));
    EXPECT_FALSE(fs::exists(Path("a")));
  }
  EXPECT_TRUE(ReadCheckpoint(Path("whole"), kTiny, state.view()).ok());
}

TEST_F(CheckpointTest, AFolderThatCantBeMadeIsNamed) {
  WriteText(Path("file"), "");
  OwnedState state(kTiny);
  Status written = WriteCheckpoint(Path("file/step-1"), kTiny, state.saved(), SomeManifest());
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.error().message, HasSubstr(Path("file/step-1")));
}

TEST_F(CheckpointTest, WhatAnAttemptThatFailedLeftIsTakenOver) {
  Write("a");
  WriteText(Path("a/notes.txt"), "mine");
  OwnedState state(kTiny, 9);
  {
    FullDisk full(100);
    EXPECT_FALSE(WriteCheckpoint(Path("a"), kTiny, state.saved(), SomeManifest()).ok());
  }
  EXPECT_EQ(ReadError(Path("a")).kind, ErrorKind::kNotFound);
  EXPECT_EQ(ReadText(Path("a/notes.txt")), "mine");
  Write("a", state);
  OwnedState read(kTiny);
  ASSERT_TRUE(ReadCheckpoint(Path("a"), kTiny, read.view()).ok());
  EXPECT_EQ(read, state);
}

TEST_F(CheckpointTest, TheFilesAreWhatTheirReadersExpect) {
  std::string folder = Write("a");
  Result<SafetensorsFile> optimizer = SafetensorsFile::Open(folder + "/optimizer.safetensors");
  ASSERT_TRUE(optimizer.ok());
  EXPECT_EQ(optimizer->tensors().size(), 2 * Parameters(kTiny).size());
  EXPECT_TRUE(optimizer->tensors().contains("exp_avg.transformer.wte.weight"));
  EXPECT_TRUE(optimizer->tensors().contains("exp_avg_sq.transformer.ln_f.bias"));
  std::string model = ReadText(folder + "/model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, model.data(), sizeof(header));
  EXPECT_EQ(header % 8, 0U);
  EXPECT_THAT(model.substr(8, header), HasSubstr(R"("__metadata__":{"format":"pt"})"));
}

}  // namespace
}  // namespace lockstep::trainer
