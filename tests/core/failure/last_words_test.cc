#include "core/failure/last_words.h"

#include <gtest/gtest.h>

#include <csignal>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/failure/peer_loss.h"

namespace lockstep::core {
namespace {

const std::string kTraceback =
    "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    step()\n";
const std::string kLink =
    "\nDuring handling of the above exception, another exception occurred:\n\n";

TEST(LastWords, BeginWithTheLastTraceback) {
  const std::string retried = "retry: Connection reset by peer\n" + kTraceback + "OSError: again\n";
  const std::string last = "[rank1]: " + kTraceback + "ValueError: bad\n";
  EXPECT_EQ(LastWordsIn(retried + last), last);
  EXPECT_EQ(LastWordsIn("killed\n"), "killed\n");
}

TEST(LastWords, OfAnExceptionWithinAnotherBothAreWords) {
  const std::string chain = kTraceback + "EOFError\n" + kLink + kTraceback + "RuntimeError: x\n";
  EXPECT_EQ(LastWordsIn("epoch 3\n" + chain), chain);
}

TEST(LastWordsClock, TellsWhenTheWordsBeganHoweverTheyAreRead) {
  const std::string text = "epoch 3\n" + kTraceback + "EOFError\n" + kLink + kTraceback;
  for (const size_t piece : {size_t{1}, size_t{7}, text.size()}) {
    LastWordsClock clock;
    EXPECT_EQ(clock.began(), kNever);
    for (size_t at = 0; at < text.size(); at += piece) {
      clock.Feed(text.substr(at, piece), milliseconds(at));
    }
    EXPECT_EQ(clock.began(), milliseconds(piece > 8 ? 0 : 8 / piece * piece)) << piece;
  }
}

TEST(LastWordsClock, ALaterFailureTakesThePlaceOfOneThatWasHandled) {
  LastWordsClock clock;
  clock.Feed(kTraceback + "ValueError: handled\n", seconds(1));
  clock.Feed("epoch 4\n" + std::string(100'000, 'x') + "\n", seconds(2));
  clock.Feed("terminate called after throwing an instance of 'std::bad_alloc'\n", seconds(3));
  EXPECT_EQ(clock.began(), seconds(3));
}

TEST(LastWordsClock, ADeathBeganWithTheWordsThatForetoldIt) {
  Failure death;
  death.at = seconds(10);
  death.by_itself = true;
  death.exit_code = 1;
  EXPECT_EQ(BeganToDie(death, seconds(9)), seconds(9));
  EXPECT_EQ(BeganToDie(death, seconds(7)), seconds(10)) << "it lived on";
  EXPECT_EQ(BeganToDie(death, kNever), seconds(10));
  EXPECT_EQ(BeganToDie(death, seconds(11)), seconds(10));
  death.signal = SIGKILL;
  EXPECT_EQ(BeganToDie(death, seconds(9)), seconds(10)) << "it was killed";
}

Failure Saying(std::initializer_list<std::string_view> words) {
  Failure death;
  death.exit_code = 1;
  for (const std::string_view each : words) death.stderr_tail += each;
  return death;
}

TEST(PeerLossTest, IsWhatThePythonExceptionsOfALostConnectionSay) {
  for (const char* last :
       {"ConnectionResetError: [Errno 104] Connection reset by peer", "ConnectionResetError",
        "BrokenPipeError: [Errno 32] Broken pipe", "EOFError", "ConnectionError: rank 2 left",
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "asyncio.exceptions.IncompleteReadError: 0 bytes read on a total of 4 expected bytes"}) {
    EXPECT_EQ(LossOf(Saying({kTraceback, last})), PeerLoss::kLastWords) << last;
    EXPECT_EQ(LossOf(Saying({"[rank3]: ", kTraceback, "[rank3]: ", last, "\n"})),
              PeerLoss::kLastWords)
        << last;
    EXPECT_EQ(LossOf(Saying({kTraceback, last, "\n", kLink, kTraceback, "RuntimeError: x"})),
              PeerLoss::kLastWords)
        << "wrapped " << last;
    EXPECT_EQ(LossOf(Saying({kTraceback, last, "\nretrying\n", kTraceback, "ValueError: bad"})),
              PeerLoss::kNone)
        << "handled " << last;
  }
}

TEST(PeerLossTest, IsNotWhatOtherExceptionsSay) {
  for (const char* last :
       {"EOFError: Ran out of input", "EOFError: EOF when reading a line", "ValueError: bad",
        "MyConnectionErrors: x", "OSError: [Errno 28] No space left on device", "KeyError: 'a'"}) {
    EXPECT_EQ(LossOf(Saying({kTraceback, last})), PeerLoss::kNone) << last;
  }
}

}  // namespace
}  // namespace lockstep::core
