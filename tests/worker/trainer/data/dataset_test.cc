#include "worker/trainer/data/dataset.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "base/time.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class DatasetTest : public ::testing::Test {
 protected:
  DatasetTest() {
    std::string pattern = ::testing::TempDir() + "dataset-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~DatasetTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string Text(const std::string& name, const std::string& text) {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }

  // As llm.c's dev/data scripts write it; `count` is what the header says.
  std::string Tokens(const std::string& name, const std::vector<uint16_t>& tokens, int32_t count,
                     int32_t version = 1, int32_t magic = 20240520) {
    std::vector<int32_t> header(256);
    header[0] = magic;
    header[1] = version;
    header[2] = count;
    std::ofstream file(Path(name), std::ios::binary);
    file.write(reinterpret_cast<const char*>(header.data()), 1024);
    file.write(reinterpret_cast<const char*>(tokens.data()),
               static_cast<std::streamsize>(tokens.size() * sizeof(uint16_t)));
    return Path(name);
  }
  std::string Tokens(const std::string& name, const std::vector<uint16_t>& tokens) {
    return Tokens(name, tokens, static_cast<int32_t>(tokens.size()));
  }

  static Result<Dataset> Open(const std::vector<std::string>& globs, int length = 4,
                              int vocabulary = 256, uint64_t seed = 1) {
    return Dataset::Open(
        {.globs = globs, .sequence_length = length, .vocabulary = vocabulary, .seed = seed});
  }

  static Dataset MustOpen(const std::vector<std::string>& globs, int length = 4,
                          int vocabulary = 256, uint64_t seed = 1) {
    Result<Dataset> data = Open(globs, length, vocabulary, seed);
    EXPECT_TRUE(data.ok()) << data.error().message;
    return std::move(*data);
  }

  static Error ErrorOf(const Result<Dataset>& data) {
    EXPECT_FALSE(data.ok());
    return data.ok() ? Error{} : data.error();
  }

  // Inputs and the last target of sequence n, as text.
  static std::string Sequence(const Dataset& data, int64_t n, size_t length = 4) {
    std::vector<int32_t> inputs(length);
    std::vector<int32_t> targets(length);
    Status read = data.Read(n, inputs, targets);
    EXPECT_TRUE(read.ok()) << read.error().message;
    EXPECT_TRUE(std::equal(inputs.begin() + 1, inputs.end(), targets.begin()));
    std::string text;
    for (int32_t token : inputs) text += static_cast<char>(token);
    return text + static_cast<char>(targets.back());
  }

  static std::multiset<std::string> Epoch(const Dataset& data, int64_t epoch) {
    std::multiset<std::string> all;
    for (int64_t i = 0; i < data.size(); ++i) all.insert(Sequence(data, epoch * data.size() + i));
    return all;
  }

  std::string folder_;
};

// Pages of a file that the kernel has in its cache.
class CachedPages {
 public:
  explicit CachedPages(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)), bytes_(fs::file_size(path)) {
    map_ = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd_, 0);
  }
  ~CachedPages() {
    munmap(map_, bytes_);
    close(fd_);
  }
  CachedPages(const CachedPages&) = delete;
  CachedPages& operator=(const CachedPages&) = delete;

  void Drop() const {
    fdatasync(fd_);
    posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  }
  size_t Count() const {
    std::vector<unsigned char> pages((bytes_ + 4095) / 4096);
    EXPECT_EQ(mincore(map_, bytes_, pages.data()), 0);
    return static_cast<size_t>(
        std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; }));
  }

 private:
  int fd_;
  size_t bytes_;
  void* map_;
};

TEST_F(DatasetTest, ReadsASequenceAheadIntoTheKernelsCache) {
  const std::string path = Text("text", std::string(size_t{1} << 20, 'x'));
  const Dataset data = MustOpen({path});
  const CachedPages cached(path);
  cached.Drop();
  if (cached.Count() > 0) GTEST_SKIP() << "this file system keeps files in memory";
  data.Prefetch(7);
  const Time until = BootTime() + seconds(60);
  while (cached.Count() == 0 && BootTime() < until) std::this_thread::yield();
  EXPECT_GT(cached.Count(), 0U);
}

TEST_F(DatasetTest, AnEpochHoldsEachSequenceOfEachFileOnce) {
  Text("a", "abcdefghijkl");  // the rest, jkl, is too short
  Text("b", "ABCDE");
  Text("short", "1234");
  Dataset data = MustOpen({Path("*")});
  EXPECT_EQ(data.size(), 3);
  EXPECT_EQ(data.tokens(), 21);
  std::multiset<std::string> all = {"abcde", "efghi", "ABCDE"};
  EXPECT_EQ(Epoch(data, 0), all);
  EXPECT_EQ(Epoch(data, 7), all);
}

TEST_F(DatasetTest, ALastSequenceThatJustFitsIsUsed) {
  EXPECT_EQ(MustOpen({Text("a", "123456789")}).size(), 2);
  EXPECT_EQ(MustOpen({Text("a", "12345678")}).size(), 1);
}

TEST_F(DatasetTest, TheOrderDependsOnSeedAndEpochAlone) {
  std::string text(4000, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 2654435761U >> 24);
  Text("a", text);
  auto order = [](const Dataset& data, int64_t epoch) {
    std::string all;
    for (int64_t i = 0; i < 50; ++i) all += Sequence(data, epoch * data.size() + i);
    return all;
  };
  Dataset data = MustOpen({Path("a")});
  EXPECT_EQ(order(data, 0), order(MustOpen({Path("a")}), 0));
  EXPECT_NE(order(data, 0), order(data, 1));
  EXPECT_NE(order(data, 0), order(MustOpen({Path("a")}, 4, 256, 2), 0));
}

TEST_F(DatasetTest, GlobsThatOverlapCountAFileOnce) {
  Text("b.txt", "ABCDE");
  Text("a.txt", "abcde");
  fs::create_symlink("a.txt", Path("z.txt"));
  Dataset once = MustOpen({Path("a.txt"), Path("b.txt")});
  Dataset data = MustOpen({Path("*.txt"), Path("b*"), folder_ + "/./a.txt"});
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(Epoch(data, 0), Epoch(once, 0));
}

TEST_F(DatasetTest, TheOrderOfGlobsDoesNotMatter) {
  Text("1", "abcdefghijklmnopqrstuvw");
  Text("2", "ABCDEFGHIJKLMNOPQRSTUVW");
  Dataset data = MustOpen({Path("1"), Path("2")});
  Dataset turned = MustOpen({Path("2"), Path("1")});
  for (int64_t n = 0; n < 20; ++n) EXPECT_EQ(Sequence(data, n), Sequence(turned, n));
  EXPECT_EQ(data.Fingerprint(), turned.Fingerprint());
}

TEST_F(DatasetTest, ANameWithAGlobsCharactersIsAName) {
  EXPECT_EQ(MustOpen({Text("a[1]*.txt", "abcde")}).size(), 1);
}

TEST_F(DatasetTest, TokensOfLlmcAreReadBehindTheHeader) {
  Tokens("a.bin", {50000, 1, 65535, 3, 256, 5});
  Dataset data = MustOpen({Path("a.bin")}, 5, 65536);
  EXPECT_EQ(data.tokens(), 6);
  std::vector<int32_t> inputs(5);
  std::vector<int32_t> targets(5);
  ASSERT_TRUE(data.Read(0, inputs, targets).ok());
  EXPECT_EQ(inputs, (std::vector<int32_t>{50000, 1, 65535, 3, 256}));
  EXPECT_EQ(targets, (std::vector<int32_t>{1, 65535, 3, 256, 5}));
}

TEST_F(DatasetTest, ATokenOutsideTheVocabularyIsNamedWithItsPosition) {
  Tokens("a.bin", {1, 2, 3, 256, 5});
  Dataset data = MustOpen({Path("a.bin")});
  std::vector<int32_t> inputs(4);
  std::vector<int32_t> targets(4);
  Status read = data.Read(0, inputs, targets);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(read.error().message,
              AllOf(HasSubstr(Path("a.bin") + ": token 3 is 256"), HasSubstr("vocabulary is 256")));

  Text("a", std::string("ab\x80") + "de");
  Dataset bytes = MustOpen({Path("a")}, 4, 128);
  EXPECT_THAT(bytes.Read(0, inputs, targets).error().message, HasSubstr("token 2 is 128"));
}

TEST_F(DatasetTest, NothingIsReadWithoutFiles) {
  EXPECT_EQ(ErrorOf(Open({})).kind, ErrorKind::kInvalid);
  Text("a", "abcdefgh");
  Error error = ErrorOf(Open({Path("a"), Path("*.txt")}));
  EXPECT_EQ(error.kind, ErrorKind::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("nothing matches " + Path("*.txt")));
}

TEST_F(DatasetTest, WhatIsNoDataIsRefusedByName) {
  EXPECT_THAT(ErrorOf(Open({Text("empty", "")})).message,
              HasSubstr(Path("empty") + " is empty; fill it"));
  EXPECT_THAT(ErrorOf(Open({folder_})).message,
              HasSubstr(folder_ + " is a folder; name a file in it"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf(Open({Path("pipe")})).message, HasSubstr(Path("pipe") + " is a pipe"));
  fs::create_symlink("nowhere", Path("link"));
  Error error = ErrorOf(Open({Path("link")}));
  EXPECT_EQ(error.kind, ErrorKind::kNotFound);
  EXPECT_THAT(error.message, HasSubstr(Path("link") + " does not exist"));
}

TEST_F(DatasetTest, AnUnreadableFileNamesTheUser) {
  Text("secret", "abcdefgh");
  fs::permissions(Path("secret"), fs::perms::none);
  // Root reads everything.
  uid_t user = geteuid();
  if (user == 0) ASSERT_EQ(seteuid(65534), 0);
  Error error = ErrorOf(Open({Path("secret")}));
  ASSERT_EQ(seteuid(user), 0);
  EXPECT_EQ(error.kind, ErrorKind::kDenied);
  EXPECT_THAT(error.message, HasSubstr("cannot be read by user"));
}

TEST_F(DatasetTest, TooFewSequencesSayHowManyThereAre) {
  Text("a", "abcdefghi");
  Result<Dataset> data =
      Dataset::Open({.globs = {Path("a")}, .sequence_length = 4, .vocabulary = 256, .at_least = 3});
  Error error = ErrorOf(data);
  EXPECT_EQ(error.kind, ErrorKind::kInvalid);
  EXPECT_THAT(error.message, AllOf(HasSubstr("9 tokens hold 2 sequences of 4"),
                                   HasSubstr("a step takes 3"), HasSubstr("globalBatchSize")));
}

TEST_F(DatasetTest, ABrokenTokenFileIsRefused) {
  EXPECT_THAT(ErrorOf(Open({Tokens("cut.bin", {1, 2, 3, 4, 5, 6}, 7)})).message,
              AllOf(HasSubstr("cut.bin has 1036 bytes, but 1038"), HasSubstr("write it again")));
  EXPECT_THAT(ErrorOf(Open({Tokens("long.bin", {1, 2, 3, 4, 5, 6}, 5)})).message,
              HasSubstr("long.bin has 1036 bytes, but 1034"));
  EXPECT_THAT(ErrorOf(Open({Tokens("negative.bin", {1, 2, 3}, -1)})).message,
              HasSubstr("negative.bin"));
  EXPECT_THAT(ErrorOf(Open({Tokens("v2.bin", {1, 2, 3, 4, 5, 6}, 6, 2)})).message,
              HasSubstr("version 2"));
  EXPECT_THAT(ErrorOf(Open({Tokens("model.bin", {1, 2, 3, 4, 5, 6}, 6, 3, 20240326)})).message,
              HasSubstr("does not begin with llm.c's magic"));
  Tokens("header.bin", {}, 0);
  fs::resize_file(Path("header.bin"), 700);
  EXPECT_THAT(ErrorOf(Open({Path("header.bin")})).message, HasSubstr("cut off within its header"));
}

TEST_F(DatasetTest, TheMagicCountsNotTheName) {
  Tokens("tokens.txt", {300, 1, 2, 3, 4});
  EXPECT_EQ(MustOpen({Path("tokens.txt")}, 4, 301).tokens(), 5);
}

TEST_F(DatasetTest, AFileThatShrinksIsAnErrorThatNamesIt) {
  Text("a", std::string(100000, 'x'));
  Dataset data = MustOpen({Path("a")}, 1000);
  fs::resize_file(Path("a"), 500);
  std::vector<int32_t> inputs(1000);
  std::vector<int32_t> targets(1000);
  Status read = data.Read(0, inputs, targets);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(read.error().message, AllOf(HasSubstr(Path("a")), HasSubstr("of 100000")));
}

TEST_F(DatasetTest, FilesBeyondThoseThatStayOpenAreReadToo) {
  for (int i = 0; i < 400; ++i) {
    std::string name = std::to_string(1000 + i);
    Text(name, std::string(name).append("-").append(name));
  }
  Dataset data = MustOpen({Path("1*")});
  std::multiset<std::string> all = Epoch(data, 0);
  EXPECT_EQ(all.size(), 800U);
  EXPECT_EQ(all.count("1399-"), 1U);

  for (int i = 0; i < 400; ++i) fs::resize_file(Path(std::to_string(1000 + i)), 3);
  std::vector<int32_t> inputs(4);
  std::vector<int32_t> targets(4);
  for (int64_t n = 0; n < data.size(); ++n) {
    Status read = data.Read(n, inputs, targets);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().kind, ErrorKind::kUnavailable);
  }
}

TEST_F(DatasetTest, FilesOfManyGibibytesAreReadInPlace) {
  constexpr uint64_t kSize = (uint64_t{5} << 30) + 3;
  Text("big", "");
  fs::resize_file(Path("big"), kSize);  // sparse
  std::fstream(Path("big"), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(kSize - 8))
      .write("theEnd!!", 8);
  Dataset data = MustOpen({Path("big")}, 1 << 20);
  EXPECT_EQ(data.tokens(), static_cast<int64_t>(kSize));
  EXPECT_EQ(data.size(), 5 * 1024);
  std::set<std::string> tails;
  for (int64_t n = 0; n < 40; ++n) tails.insert(Sequence(data, n * 100, 1 << 20).substr(1 << 20));
  EXPECT_EQ(tails.size(), 1U);
}

TEST_F(DatasetTest, AnyThreadReads) {
  Text("a", std::string(64000, 'x'));
  Dataset data = MustOpen({Path("a")}, 64);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&data, t] {
      for (int64_t n = t; n < 2000; n += 4) {
        EXPECT_EQ(Sequence(data, n, 64), std::string(65, 'x'));
      }
    });
  }
}

TEST_F(DatasetTest, TheFingerprintTellsDataApart) {
  std::string original = MustOpen({Text("a", "abcdefghij")}).Fingerprint();
  EXPECT_THAT(original, HasSubstr("1 files, 10 tokens in sequences of 4"));
  EXPECT_EQ(MustOpen({Path("a")}, 4, 256, 99).Fingerprint(), original);
  EXPECT_NE(MustOpen({Path("a")}, 5).Fingerprint(), original);

  fs::create_directory(Path("elsewhere"));
  EXPECT_EQ(MustOpen({Text("elsewhere/a", "abcdefghij")}).Fingerprint(), original);
  EXPECT_NE(MustOpen({Text("b", "abcdefghij")}).Fingerprint(), original);
  EXPECT_NE(MustOpen({Text("a", "abcdefghiJ")}).Fingerprint(), original);
  EXPECT_NE(MustOpen({Text("a", "Abcdefghij")}).Fingerprint(), original);
  EXPECT_NE(MustOpen({Text("a", "abcdefghijk")}).Fingerprint(), original);
}

TEST_F(DatasetTest, RandomFilesAreReadExactlyOrRefused) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same files each time
  for (int round = 0; round < 500; ++round) {
    std::vector<uint16_t> tokens(random() % 40);
    for (uint16_t& token : tokens) token = static_cast<uint16_t>(random() % 300);
    Tokens("a.bin", tokens);
    if (random() % 2 == 0) fs::resize_file(Path("a.bin"), random() % (1100));
    Result<Dataset> data = Open({Path("a.bin")}, 3, 280);
    for (int64_t n = 0; data.ok() && n < data->size(); ++n) {
      std::vector<int32_t> inputs(3);
      std::vector<int32_t> targets(3);
      Status read = data->Read(n, inputs, targets);
      auto found = std::search(tokens.begin(), tokens.end(), inputs.begin(), inputs.end());
      EXPECT_TRUE(!read.ok() || found != tokens.end());
      EXPECT_TRUE(!read.ok() || std::ranges::max(inputs) < 280);
    }
  }
}

}  // namespace
}  // namespace lockstep::trainer
