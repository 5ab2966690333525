#include "worker/agent/logs/line_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::agent {
namespace {

using Lines = std::vector<std::string>;

// A trailing '+' stands for "continues".
Lines Split(const std::vector<std::string>& pieces) {
  Lines lines;
  LineSplitter splitter;
  const auto sink = [&](std::string_view line, bool continues) {
    lines.push_back(std::string(line) + (continues ? "+" : ""));
  };
  for (const std::string& piece : pieces) splitter.Feed(piece, sink);
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

TEST(LineSplitter, AProgressBarIsWhatIsLeftOfIt) {
  EXPECT_EQ(Split({"\r 10%", "\r 50%\r100%", "\ndone\n"}), (Lines{"100%", "done"}));
  EXPECT_EQ(Split({"windows\r", "\nline\r\n"}), (Lines{"windows", "line"}));
}

}  // namespace
}  // namespace lockstep::agent
