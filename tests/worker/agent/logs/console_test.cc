#include "worker/agent/logs/console.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>

#include "tests/base/loop_test_base.h"
#include "tests/base/shell.h"

namespace lockstep::agent {
namespace {

class ConsoleTest : public LoopTest {
 protected:
  ConsoleTest() { signal(SIGPIPE, SIG_IGN); }

  void MakePipe() {
    std::array<int, 2> fds{};
    ASSERT_EQ(pipe2(fds.data(), O_CLOEXEC), 0);
    reader_.reset(fds[0]);
    writer_.reset(fds[1]);
    fcntl(reader_.get(), F_SETFL, O_NONBLOCK);
  }

  UniqueFd reader_;
  UniqueFd writer_;
};

TEST_F(ConsoleTest, WritesLinesThroughAPipeWithoutChangingItForOthers) {
  MakePipe();
  Console console(loop(), writer_.get());
  std::string expected;
  for (int i = 0; i < 20'000; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    expected += line;
    console.Write(line);
  }
  Output output(loop(), std::move(reader_));
  ASSERT_TRUE(RunUntil([&] { return output.text().size() == expected.size(); }));
  EXPECT_EQ(output.text(), expected);
  EXPECT_TRUE(console.empty());
  EXPECT_EQ(fcntl(writer_.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(ConsoleTest, AReaderThatStandsStillCostsLinesAndIsToldOnceItReadsAgain) {
  MakePipe();
  Console console(loop(), writer_.get(), 16 * 1024);
  const std::string line(99, 'x');
  for (int i = 0; i < 10'000; ++i) {
    console.Write(line + "\n");
    if (i % 100 == 0) Settle();
  }
  EXPECT_GT(console.dropped_lines(), 9'000U);
  EXPECT_EQ(console.dropped_bytes(), console.dropped_lines() * 100);

  const uint64_t dropped = console.dropped_lines();
  Output output(loop(), std::move(reader_));
  ASSERT_TRUE(RunUntil([&] { return console.empty(); }));
  console.Write("after\n");
  ASSERT_TRUE(RunUntil([&] { return output.text().ends_with("after\n"); }));
  const size_t notice = output.text().find("lockstep: " + std::to_string(dropped) + " lines");
  EXPECT_NE(notice, std::string::npos);
  EXPECT_EQ(output.text()[notice - 1], '\n') << "only whole lines are dropped";
}

TEST_F(ConsoleTest, AReaderThatIsGoneIsNoErrorOfOurs) {
  MakePipe();
  Console console(loop(), writer_.get());
  reader_.reset();
  console.Write("one\n");
  Settle();
  console.Write("two\n");
  EXPECT_TRUE(console.empty());
  EXPECT_EQ(console.dropped_lines(), 1U);
}

TEST_F(ConsoleTest, WritesToASocketAFileATerminalAndDevNull) {
  std::array<int, 2> sockets{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
  const UniqueFd near(sockets[0]);
  Output far(loop(), UniqueFd(sockets[1]));
  Console to_socket(loop(), near.get());
  to_socket.Write("by socket\n");
  ASSERT_TRUE(RunUntil([&] { return far.text() == "by socket\n"; }));

  const UniqueFd master(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(master.valid());
  ASSERT_EQ(grantpt(master.get()), 0);
  ASSERT_EQ(unlockpt(master.get()), 0);
  const UniqueFd terminal(open(ptsname(master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(terminal.valid());
  Console to_terminal(loop(), terminal.get());
  to_terminal.Write("by terminal\n");
  Output screen(loop(), UniqueFd(fcntl(master.get(), F_DUPFD_CLOEXEC, 0)));
  ASSERT_TRUE(RunUntil([&] { return screen.text() == "by terminal\r\n"; }));
  EXPECT_EQ(fcntl(terminal.get(), F_GETFL) & O_NONBLOCK, 0);

  const UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  Console to_null(loop(), null.get());
  to_null.Write("nowhere\n");
  const UniqueFd file(memfd_create("console", 0));
  Console to_file(loop(), file.get());
  to_file.Write("by file\n");
  ASSERT_TRUE(RunUntil([&] { return to_file.empty() && to_null.empty(); }));
  std::array<char, 64> text{};
  EXPECT_EQ(pread(file.get(), text.data(), text.size(), 0), 8);
  EXPECT_EQ(to_null.dropped_lines() + to_file.dropped_lines(), 0U);
}

TEST_F(ConsoleTest, AFullDiskCostsLinesAndNothingElse) {
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full.valid());
  Console console(loop(), full.get());
  console.Write("lost\n");
  Settle();
  EXPECT_TRUE(console.empty());
  EXPECT_EQ(console.dropped_lines(), 1U);
}

}  // namespace
}  // namespace lockstep::agent
