#include "base/man/man_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ManPageTest, PageOfACommandHasItsOptionsAndTheSectionsOfItsFooter) {
  CLI::App app("Drives: fast\nand far.", "car");
  CLI::App* go = app.add_subcommand("go", "Go somewhere: at once");
  std::string place, gear = "low";
  int speed = 0;
  go->add_option("PLACE", place, "Where to")->required();
  go->add_option("-g,--gear", gear, "Which gear")
      ->check(CLI::IsMember({"low", "high"}))
      ->capture_default_str();
  go->add_option("--speed", speed, "km/h")->check(CLI::Range(1, 200))->envname("CAR_SPEED");
  bool old = false;
  go->add_flag("--old", old, "Not shown")->group("");
  go->footer(
      "Examples:\n  car go 'home'\n\n.hidden is not a request.\nExit codes:\n  0   there\n"
      "  1   not there");
  const std::string page =
      ManPage(*go, {.version = "1.2", .date = "2026-01-02", .also = {"car"}, .aliases = {}});
  EXPECT_THAT(page, StartsWith(".TH CAR\\-GO 1 \"2026-01-02\" \"Lockstep 1.2\" \"Lockstep\"\n"
                               ".SH NAME\ncar\\-go \\- Go somewhere\n"
                               ".SH SYNOPSIS\n\\fBcar go\\fR [\\fIOPTION\\fR]... "
                               "\\fIPLACE\\fR\n"));
  EXPECT_THAT(page, HasSubstr(".SH ARGUMENTS\n.TP\n\\fIPLACE\\fR\nWhere to\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-g\\fR, \\fB\\-\\-gear\\fR \\fBlow\\fR|\\fBhigh\\fR\n"
                              "Which gear\nDefault: low.\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-speed\\fR \\fIINT\\fR\nkm/h\nRange: 1 \\- 200.\n"
                              "Environment: \\fBCAR_SPEED\\fR.\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXIT STATUS\n.TP\n\\fB0\\fR\nthere\n.TP\n\\fB1\\fR\n"));
  EXPECT_THAT(page, HasSubstr(".SH NOTES\n\\&.hidden is not a request.\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXAMPLES\n.nf\n  car go \\(aqhome\\(aq\n.fi\n"));
  EXPECT_THAT(page, HasSubstr(".SH SEE ALSO\n.BR car (1)\n"));
  EXPECT_THAT(page, Not(HasSubstr("old")));
}

TEST(ManPageTest, PageOfAProgramNamesThePagesOfItsCommands) {
  CLI::App app("Drives: fast\nand far.", "car");
  app.add_subcommand("go", "Go somewhere");
  app.add_subcommand("tow", "Hidden")->group("");
  const std::string page =
      ManPage(app, {.version = "1", .date = "", .also = {"bus"}, .aliases = {"automobile"}});
  EXPECT_THAT(page, HasSubstr(".SH NAME\ncar, automobile \\- Drives\n"));
  EXPECT_THAT(page, HasSubstr("\\fBcar\\fR [\\fIOPTION\\fR]... \\fICOMMAND\\fR\n"));
  EXPECT_THAT(page, HasSubstr(".SH DESCRIPTION\nDrives: fast\nand far.\n"));
  EXPECT_THAT(page, HasSubstr("\\fBgo\\fR\nGo somewhere.\nSee \\fBcar\\-go\\fR(1).\n"));
  EXPECT_THAT(page, HasSubstr(".SH SEE ALSO\n.BR bus (1),\n.BR car\\-go (1)\n"));
  EXPECT_THAT(page, Not(HasSubstr("tow")));
}

TEST(ManPageTest, CommandLineOfTheUsersOwnIsPartOfTheSynopsis) {
  CLI::App app("Times a command", "timer");
  EXPECT_THAT(
      ManPage(app,
              {.version = "1", .date = "", .also = {}, .aliases = {}, .takes_command_line = true}),
      HasSubstr("[\\fIOPTION\\fR]... [\\fB\\-\\-\\fR \\fICOMMAND\\fR...]\n"));
}

TEST(ManPageTest, DateIsThatOfTheSource) {
  setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
  EXPECT_EQ(ManDate(), "2023-11-14");
  unsetenv("SOURCE_DATE_EPOCH");
}

}  // namespace
}  // namespace lockstep
