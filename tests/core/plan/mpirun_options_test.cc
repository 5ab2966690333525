#include "core/plan/mpirun_options.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lockstep::core {
namespace {

TEST(MpirunOptions, EachNameStandsThereOnce) {
  std::set<std::string> seen;
  for (const MpirunOption& option : kMpirunOptions) {
    std::string_view names = option.names;
    while (!names.empty()) {
      const size_t blank = std::min(names.find(' '), names.size());
      const std::string name(names.substr(0, blank));
      EXPECT_FALSE(name.empty()) << option.names;
      EXPECT_TRUE(seen.insert(name).second) << name;
      EXPECT_EQ(FindMpirunOption(name), &option) << name;
      names.remove_prefix(std::min(blank + 1, names.size()));
    }
  }
}

TEST(MpirunOptions, AnUnknownOneIsNotFound) {
  for (const char* name : {"", "train", "n p", "np n", " np"}) {
    EXPECT_EQ(FindMpirunOption(name), nullptr) << name;
  }
}

TEST(MpirunOptions, AVariableIsOneWordOrTwo) {
  const int values = FindMpirunOption("genv")->values;
  EXPECT_EQ(WordsThatFollow(values, "A=b"), 1);
  EXPECT_EQ(WordsThatFollow(values, "A"), 2);
  EXPECT_EQ(WordsThatFollow(values, ""), 2);
}

TEST(MpirunOptions, RanksMayFollowTheLetterS) {
  const int values = FindMpirunOption("s")->values;
  EXPECT_EQ(WordsThatFollow(values, "all"), 1);
  EXPECT_EQ(WordsThatFollow(values, "0,2-4"), 1);
  EXPECT_EQ(WordsThatFollow(values, "-np"), 0);
}

}  // namespace
}  // namespace lockstep::core
