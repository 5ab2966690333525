// Runs the tests, or is the guard process of one of them.
#include <gtest/gtest.h>

#include <string_view>

#include "worker/agent/processes/guard.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == lockstep::agent::kGuardArgument) {
    return lockstep::agent::GuardMain(argc, argv);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
