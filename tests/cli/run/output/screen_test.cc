#include "cli/run/output/screen.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace lockstep::cli {
namespace {

class SinkTest : public ::testing::Test {
 protected:
  SinkTest() : loop_(std::move(*EventLoop::Create())) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    reader_.reset(ends[0]);
    writer_.reset(ends[1]);
  }

  std::unique_ptr<EventLoop> loop_;
  UniqueFd reader_;
  UniqueFd writer_;
};

TEST_F(SinkTest, AReaderThatStandsStillBlocksNothingAndLosesNothing) {
  Sink sink(writer_.get(), loop_.get());
  std::string text(1 << 20, 'x');
  sink.Write(text);
  EXPECT_GT(sink.pending(), 0u);
  size_t received = 0;
  std::array<char, 65536> block;
  while (received < text.size()) {
    ssize_t n = read(reader_.get(), block.data(), block.size());
    ASSERT_GT(n, 0);
    received += static_cast<size_t>(n);
    if (sink.pending() > 0) loop_->RunOnce();
  }
  EXPECT_EQ(sink.pending(), 0u);
}

TEST_F(SinkTest, TheDescriptorItselfStaysInBlockingMode) {
  Sink sink(writer_.get(), loop_.get());
  sink.Write("text");
  EXPECT_EQ(fcntl(writer_.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(SinkTest, AReaderThatIsGoneIsWrittenToNoMore) {
  std::signal(SIGPIPE, SIG_IGN);
  Sink sink(writer_.get(), loop_.get());
  reader_.reset();
  sink.Write("text");
  sink.Write("text");
  EXPECT_EQ(sink.pending(), 0u);
}

TEST_F(SinkTest, AFullDiskIsReportedOnceAndTriedAgain) {
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  Sink sink(full.get(), loop_.get());
  sink.Write("text");
  EXPECT_EQ(sink.TakeProblem(), "No space left on device");
  sink.Write("text");
  EXPECT_EQ(sink.TakeProblem(), "");
  EXPECT_EQ(sink.pending(), 0u);
}

}  // namespace
}  // namespace lockstep::cli
