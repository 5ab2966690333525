#include "cli/sync/code_rules.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(IgnoreRules, TheLastPatternThatFitsDecides) {
  const IgnoreRules rules =
      IgnoreRules::Parse("# what\n*.log\r\n!keep.log\n\n/top.txt\ndata/\na/b\n");
  EXPECT_TRUE(rules.Ignores("run.log", false));
  EXPECT_TRUE(rules.Ignores("deep/run.log", false));
  EXPECT_FALSE(rules.Ignores("deep/keep.log", false));
  EXPECT_TRUE(rules.Ignores("top.txt", false));
  EXPECT_FALSE(rules.Ignores("deep/top.txt", false)) << "at the top alone";
  EXPECT_TRUE(rules.Ignores("deep/data", true));
  EXPECT_FALSE(rules.Ignores("data", false)) << "folders alone";
  EXPECT_TRUE(rules.Ignores("a/b", false));
  EXPECT_FALSE(rules.Ignores("c/a/b", false));
}

TEST(IgnoreRules, WithoutGitEnvironmentsAndWeightsAreNoCode) {
  const IgnoreRules rules = IgnoreRules::BuiltIn();
  EXPECT_TRUE(rules.Ignores(".venv", true));
  EXPECT_TRUE(rules.Ignores("out/model.safetensors", false));
  EXPECT_FALSE(rules.Ignores("src/model.py", false));
}

TEST(Secrets, AreKnownByTheirNames) {
  for (const char* name : {".env", ".env.local", "server.pem", "tls.key", "id_ed25519", ".netrc"}) {
    EXPECT_TRUE(LooksSecret(name)) << name;
  }
  for (const char* name : {"env.py", ".env.example", "keys.py", "id_map.json"}) {
    EXPECT_FALSE(LooksSecret(name)) << name;
  }
}

}  // namespace
}  // namespace lockstep::cli
