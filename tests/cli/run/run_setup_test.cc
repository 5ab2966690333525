#include "cli/run/run_setup.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(RunSetup, MachinesNamesComeBeforeWhatTheComputersHostsFileSaysOfThem) {
  std::vector<Place> places(2);
  places[0].address = "127.7.7.1";
  places[1].address = "127.7.7.2";
  EXPECT_EQ(HostsText("gpt", places, "127.0.0.1 localhost\n10.0.0.9 gpt-1\n"),
            "127.7.7.1\tgpt-0\n127.7.7.2\tgpt-1\n127.0.0.1 localhost\n10.0.0.9 gpt-1\n");
}

}  // namespace
}  // namespace lockstep::cli
