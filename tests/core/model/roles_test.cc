#include "core/model/roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Spec SomeSpec() {
  Spec spec;
  spec.num_machines = 3;
  spec.processes_per_machine = 2;
  spec.roles = {{"chief", 1}, {"worker", 3, RoleRestart::kAlone}, {"ps", 2}};
  return spec;
}

TEST(Roles, AreGivenRanksInOrder) {
  const Spec spec = SomeSpec();
  EXPECT_EQ(RoleOf(spec, 0)->role->name, "chief");
  EXPECT_EQ(RoleOf(spec, 3)->role->name, "worker");
  EXPECT_EQ(RoleOf(spec, 3)->index, 2);
  EXPECT_EQ(RoleOf(spec, 5)->role->name, "ps");
  EXPECT_FALSE(RoleOf(spec, 6));
  EXPECT_FALSE(RoleOf(Spec{}, 0));
}

TEST(Roles, OfWhomSuccessHangsOn) {
  Spec spec = SomeSpec();
  EXPECT_THAT(DecidingRanks(spec), IsEmpty());
  spec.success_policy = SuccessPolicy::kRole;
  spec.success_role = "ps";
  EXPECT_THAT(DecidingRanks(spec), ElementsAre(4, 5));
  spec.success_policy = SuccessPolicy::kMachine0;
  EXPECT_THAT(DecidingRanks(spec), ElementsAre(0, 1));
  spec.launch = Launch::kPerMachine;
  EXPECT_THAT(DecidingRanks(spec), ElementsAre(0)) << "one process a machine";
  spec = Spec{};
  spec.framework = Framework::kMpi;
  spec.processes_per_machine = 4;
  EXPECT_THAT(DecidingRanks(spec), ElementsAre(0)) << "mpirun";
}

TEST(Roles, ThoseAreStartedAgainAloneWhoseRoleSaysSo) {
  EXPECT_THAT(AloneRanks(SomeSpec()), ElementsAre(1, 2, 3));
  EXPECT_THAT(AloneRanks(Spec{}), IsEmpty());
}

}  // namespace
}  // namespace lockstep::core
