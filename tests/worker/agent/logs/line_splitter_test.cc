#include "worker/agent/logs/line_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::agent {
namespace {

using Lines = std::vector<std::string>;

// A trailing '+' stands for "continues", '~' for the state of a line that is overwritten. There is
// so much time between two pieces.
Lines Split(const std::vector<std::string>& pieces, Duration between = {}) {
  Lines lines;
  LineSplitter splitter;
  const auto sink = [&](std::string_view line, Piece piece) {
    lines.push_back(std::string(line) + (piece == Piece::kContinues ? "+" : "") +
                    (piece == Piece::kState ? "~" : ""));
  };
  Time now = hours(1);
  for (const std::string& piece : pieces) {
    splitter.Feed(piece, now, sink);
    now += between;
  }
  splitter.Finish(sink);
  return lines;
}

TEST(LineSplitter, GivesTheSameLinesHoweverTheOutputIsCut) {
  EXPECT_EQ(Split({"one\ntwo\n\nfour"}), (Lines{"one", "two", "", "four"}));
  EXPECT_EQ(Split({"o", "ne", "\n", "two\n\nfo", "ur"}), (Lines{"one", "two", "", "four"}));
}

TEST(LineSplitter, ALineThatIsTooLongComesInMarkedPieces) {
  const std::string piece(LineSplitter::kMaxLine, 'x');
  EXPECT_EQ(Split({piece + piece + "end\nnext\n"}),
            (Lines{piece + "+", piece + "+", "end", "next"}));
  EXPECT_EQ(Split({piece + "\n"}), Lines{piece});
}

TEST(LineSplitter, ALineThatIsTooLongIsCutBetweenCharacters) {
  for (const std::string character : {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) {
    for (size_t shift = 0; shift < character.size(); ++shift) {
      std::string text(shift, 'x');
      while (text.size() < 3 * LineSplitter::kMaxLine) text += character;
      std::string together;
      for (std::string piece : Split({text.substr(0, 20'001), text.substr(20'001), "\n"})) {
        if (piece.ends_with('+')) piece.pop_back();
        EXPECT_EQ((piece.size() - (together.empty() ? shift : 0)) % character.size(), 0U);
        together += piece;
      }
      EXPECT_EQ(together, text);
    }
  }
  const std::string bytes(LineSplitter::kMaxLine + 1, '\x80');  // no UTF-8 at all
  EXPECT_EQ(Split({bytes}), (Lines{bytes.substr(1) + "+", "\x80"}));
}

TEST(LineSplitter, AProgressBarThatGoesOnForLongIsToldAsItStands) {
  std::vector<std::string> bar;
  for (int percent = 0; percent < 30; ++percent)
    bar.push_back("\r" + std::to_string(percent) + "%");
  EXPECT_EQ(Split(bar, seconds(1)), (Lines{"10%~", "20%~", "29%"}));
  EXPECT_EQ(Split(bar, milliseconds(100)), Lines{"29%"});
  EXPECT_EQ(Split({"\r0%", "\r1%\nnext", " line"}, seconds(20)), (Lines{"1%", "next line"}));
}

TEST(LineSplitter, AProgressBarIsWhatIsLeftOfIt) {
  EXPECT_EQ(Split({"\r 10%", "\r 50%\r100%", "\ndone\n"}), (Lines{"100%", "done"}));
  EXPECT_EQ(Split({"windows\r", "\nline\r\n"}), (Lines{"windows", "line"}));
}

}  // namespace
}  // namespace lockstep::agent
