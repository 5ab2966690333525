#include "tests/operator/control/scene.h"

namespace lockstep::control {
namespace {

using testing::HasSubstr;

std::string ReasonOf(Scene& scene) {
  scene.Settle();
  return scene.status().reason;
}

TEST(Reason, IsTheSchedulersWhereMachinesArePending) {
  Scene scene(MakeJob("gpt").Machines(2));
  for (int i = 0; i < 2; ++i) scene.Make(scene.Settle());
  scene.pod(1).scheduled = false;
  scene.pod(1).node.clear();
  scene.pod(1).worker = {};
  scene.pod(1).schedule_message = "0/3 nodes are available";
  EXPECT_EQ(ReasonOf(scene), "1 of 2 machines are not scheduled: 0/3 nodes are available");
}

TEST(Reason, IsTheImagesThatCannotBePulled) {
  Scene scene(MakeJob("gpt").Machines(2));
  for (int i = 0; i < 2; ++i) scene.Make(scene.Settle());
  scene.pod(1).worker = {};
  scene.pod(1).worker.kind = kube::ContainerState::Kind::kWaiting;
  scene.pod(1).worker.reason = "ImagePullBackOff";
  scene.pod(1).worker.message = "no such image";
  EXPECT_EQ(ReasonOf(scene),
            "machine 1 cannot start on node node-1: ImagePullBackOff: no such image");
}

TEST(Reason, IsAQuotasOrAnAdmissionsRefusal) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Settle();
  scene.memory().refusal = Refusal{Refusal::Kind::kForbidden, "pod gpt-0", "exceeded quota: gpus"};
  scene.memory().make_again = scene.now.boot + seconds(10);
  EXPECT_EQ(ReasonOf(scene), "pod gpt-0 may not be made: exceeded quota: gpus");
}

TEST(Reason, IsTheCoordinatorsOnceItSpeaks) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Report(core::CoordinatorPhase::kGathering).reason = "waiting for machines 1 of 2";
  EXPECT_EQ(ReasonOf(scene), "waiting for machines 1 of 2");
}

TEST(Reason, IsTheSilenceOfMachine0BeforeThat) {
  Scene scene(MakeJob("gpt").Machines(2));
  for (int i = 0; i < 2; ++i) scene.Make(scene.Settle());
  EXPECT_EQ(ReasonOf(scene), "no word yet from the agent of machine 0");
}

}  // namespace
}  // namespace lockstep::control
