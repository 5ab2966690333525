#include "cli/convert/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::convert {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> Commands(const std::string& text) {
  const Script script = ReadScript(text);
  EXPECT_FALSE(script.problem) << script.problem->message;
  std::vector<std::string> commands;
  for (const ScriptCommand& command : script.commands) commands.push_back(command.text);
  return commands;
}

std::vector<std::string> Words(const std::string& text, ScriptVariables variables = {}) {
  return Expander(std::move(variables)).Expand(text).words;
}

TEST(ReadScript, PartsCommandsAtLineEndsAndOperators) {
  EXPECT_THAT(Commands("a b\nc; d && e || f &\ng | h\n"),
              ElementsAre("a b", "c", "d", "e", "f", "g", "h"));
  EXPECT_THAT(Commands("a \\\n  b # c\n# d\ne"), ElementsAre("a \\\n  b", "e"));
  EXPECT_THAT(Commands("a > b 2>&1\nc &> d\n"), ElementsAre("a > b 2>&1", "c &> d"));
  EXPECT_THAT(Commands("a ';' \"; $(b; c)\" `d; e` ${f:-;}"),
              ElementsAre("a ';' \"; $(b; c)\" `d; e` ${f:-;}"));
  EXPECT_THAT(Commands("A=(b c)\n[[ a && b ]] && c\n(( i++ ))"),
              ElementsAre("A=(b c)", "[[ a && b ]]", "c", "(( i++ ))"));
  EXPECT_THAT(Commands("echo a#b"), ElementsAre("echo a#b"));
}

TEST(ReadScript, KnowsWhereCommandsStand) {
  const Script script = ReadScript("a\n\nb \\\nc\n  d |\n e\n");
  ASSERT_EQ(script.commands.size(), 4U);
  EXPECT_EQ(script.commands[1].line, 3);
  EXPECT_EQ(script.commands[2].line, 5);
  EXPECT_FALSE(script.commands[2].after_pipe);
  EXPECT_TRUE(script.commands[3].after_pipe);
}

TEST(ReadScript, KnowsTheBlocksAroundACommand) {
  const Script script = ReadScript(
      "a\nif b; then c; else d; fi\nfor x in 1 2; do e; done\nf() {\n g\n}\n(h)\n"
      "case $x in\n a) i;;\n *) j\nesac\nwhile k; do for y in z; do l; done; done\n"
      "for ((i=0;i<2;i++)); do m; done\nfunction n {\n o\n}\np\n");
  ASSERT_FALSE(script.problem) << script.problem->message;
  std::string seen;
  for (const ScriptCommand& each : script.commands) {
    seen += each.text + std::to_string(each.depth) + " ";
  }
  EXPECT_EQ(seen, "a0 b1 c1 d1 e1 g1 h1 i1 j1 k1 l2 m1 o1 p0 ");
}

TEST(ReadScript, SkipsHereDocuments) {
  EXPECT_THAT(Commands("cat <<EOF > f\ntorchrun a\nEOF\nb <<< c\nx <<-'X'\n e\n\tX\nf"),
              ElementsAre("cat <<EOF > f", "b <<< c", "x <<-'X'", "f"));
}

TEST(ReadScript, SaysWhereATornScriptIsTorn) {
  const struct {
    const char* text;
    int line;
    const char* says;
  } cases[] = {
      {"a\nb 'c\nx\n", 2, "never ends"}, {"a \"b", 1, "never ends"},
      {"a\n\n$(b", 3, "never ends"},     {"A=(b", 1, "never ends"},
      {"a\nif b; then\nc\n", 2, "`if`"}, {"(a", 1, "`(`"},
      {"fi\n", 1, "nothing is open"},    {"cat <<EOF\na\n", 3, "EOF"},
  };
  for (const auto& c : cases) {
    const Script script = ReadScript(c.text);
    ASSERT_TRUE(script.problem) << c.text;
    EXPECT_THAT(script.problem->message, HasSubstr(c.says)) << c.text;
    EXPECT_EQ(script.problem->line, c.line) << c.text;
  }
}

TEST(ReadScript, RefusesWhatIsTooDeepToBeMeant) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "$(";
  EXPECT_TRUE(ReadScript(deep).problem);
}

TEST(Expander, MakesWords) {
  EXPECT_THAT(Words("a 'b c' \"d e\" f\\ g \\\n h"), ElementsAre("a", "b c", "d e", "f g", "h"));
  EXPECT_THAT(Words("a > b 2>&1 c"), ElementsAre("a", "c"));
  EXPECT_THAT(Words("a '' \"\""), ElementsAre("a", "", ""));
  EXPECT_THAT(Words(""), IsEmpty());
}

TEST(Expander, ReplacesWhatTheScriptSays) {
  const ScriptVariables variables = {{"N", "4"}, {"L", "a  b"}, {"E", ""}};
  EXPECT_THAT(Words("$N ${N}x \"$L\" $L '$N' \\$N $E", variables),
              ElementsAre("4", "4x", "a  b", "a", "b", "$N", "$N"));
  EXPECT_THAT(Words("${M:-7} ${N:-7} ${E:-8} ${E-8}x ${M:=\"$N\"}", variables),
              ElementsAre("7", "4", "8", "x", "\"4\""));
  EXPECT_THAT(Words("$((N * 8)) $(( ($N+1)*${N} - 2 )) $((9/2%3))", variables),
              ElementsAre("32", "18", "1"));
  EXPECT_THAT(Words("A=$L c B=$L", variables), ElementsAre("A=a  b", "c", "B=a", "b"));
  EXPECT_THAT(Words("export B=$L", variables), ElementsAre("export", "B=a  b"));
}

TEST(Expander, KeepsAndTellsWhatItDoesNotSay) {
  const ExpandedCommand command =
      Expander({}).Expand("A=b $X --a=$(hostname -s) `c d` ${X[0]} $1 $((X*2)) $((1/0)) a$");
  EXPECT_EQ(command.assignments, 1U);
  EXPECT_THAT(command.words, ElementsAre("A=b", "$X", "--a=$(hostname -s)", "`c d`", "${X[0]}",
                                         "$1", "$((X*2))", "$((1/0))", "a$"));
  EXPECT_EQ(command.unknown.size(), 7U);
  EXPECT_EQ(command.UnknownIn("--a=$(hostname -s)"), "$(hostname -s)");
  EXPECT_EQ(command.UnknownIn("a$"), "");
}

TEST(Expander, TellsWhatAShellWouldWorkOn) {
  const struct {
    const char* text;
    const char* unknown;  // empty: none
  } cases[] = {{"a ~/b", "~/b"},       {"a b~ '~'", ""},         {"A=~/b", "~/b"},
               {"A=b:~/c", "b:~/c"},   {"a *.tar", "*.tar"},     {"a 'b*' \"c?\" d\\*", ""},
               {"A=*.tar", ""},        {"a b[0-9]", "b[0-9]"},   {"[ a ]", ""},
               {"a x{1,2}", "x{1,2}"}, {"a {1..3}", "{1..3}"},   {"a {} {x}", ""},
               {"a --b=~/c", ""},      {"a $'b\\n'", "$'b\\n'"}, {"a #", ""}};
  for (const auto& c : cases) {
    const ExpandedCommand command = Expander({}).Expand(c.text);
    const std::string unknown = command.unknown.empty() ? "" : command.unknown[0];
    EXPECT_EQ(unknown, c.unknown) << c.text;
  }
  EXPECT_EQ(Expander({{"F", "a*"}}).Expand("b $F").unknown.size(), 1U);
}

TEST(Expander, KnowsWhatReadsAnInput) {
  EXPECT_TRUE(Expander({}).Expand("bash <<EOF").reads_input);
  EXPECT_TRUE(Expander({}).Expand("a < in.txt").reads_input);
  EXPECT_FALSE(Expander({}).Expand("a < /dev/null > out 2>&1").reads_input);
}

TEST(Expander, TellsTheUnknownPartsOfValues) {
  Expander expander({});
  expander.Set("A", "run $X", {"$X"});
  const ExpandedCommand command = expander.Expand("sh -c \"$A b\"");
  EXPECT_THAT(command.words, ElementsAre("sh", "-c", "run $X b"));
  EXPECT_EQ(command.UnknownIn(command.words[2]), "$X");
  EXPECT_FALSE(expander.IsWhole("A"));
}

TEST(Expander, StopsWhereValuesGrowWithoutEnd) {
  Expander expander({{"A", std::string(1U << 20, 'a')}});
  std::string line;
  for (int i = 0; i < 1000; ++i) line += "\"$A\"";
  const ExpandedCommand command = expander.Expand(line);
  EXPECT_LT(command.words[0].size(), 8U << 20);
  EXPECT_FALSE(command.unknown.empty());
}

}  // namespace
}  // namespace lockstep::convert
