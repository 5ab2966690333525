#include "tests/operator/policy/scene.h"

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
  scene.machine(1).stage = Stage::kUnplaced;
  scene.machine(1).node.clear();
  scene.machine(1).unplaced_because = "0/3 nodes are available";
  EXPECT_EQ(ReasonOf(scene), "1 of 2 machines are not scheduled: 0/3 nodes are available");
}

TEST(Reason, OfAMachineThatIsTooLargeBeginsWithTheAdvice) {
  Scene scene(MakeJob("gpt").Machines(2).Processes(2).Cpu("500"));
  for (int i = 0; i < 2; ++i) scene.Make(scene.Settle());
  scene.machine(1).stage = Stage::kUnplaced;
  scene.machine(1).node.clear();
  scene.machine(1).unplaced_because =
      "0/300 nodes are available: 300 Insufficient cpu. preemption: " + std::string(300, 'x');
  scene.snapshot().largest = {{"cpu", Quantity::FromUnits(8)}};
  EXPECT_THAT(
      ReasonOf(scene),
      testing::StartsWith("1 of 2 machines are not scheduled: a machine asks for 1k cpu and "
                          "the largest node has 8: add larger nodes, or lower "
                          "spec.resourcesPerProcess.cpu; the scheduler: 0/300 nodes"));
}

void Wait(Scene& scene, int machine, const char* reason, const char* message) {
  scene.machine(machine).stage = Stage::kPlaced;
  scene.machine(machine).trouble = StartTrouble{true, reason, message};
}

TEST(Reason, IsWhyAContainerCannotStart) {
  Scene scene(MakeJob("gpt").Machines(2));
  for (int i = 0; i < 2; ++i) scene.Make(scene.Settle());
  Wait(scene, 1, "CreateContainerConfigError", "secret \"token\" not found");
  EXPECT_EQ(ReasonOf(scene),
            "machine 1 cannot start on node node-1: CreateContainerConfigError: secret \"token\" "
            "not found; make it, or correct the job's env, envFrom or checkpoint.secret");
}

TEST(Reason, OfAnImageIsTheSameWhateverKubeletTriesAtTheMoment) {
  Scene scene(MakeJob("gpt").Machines(2));
  for (int i = 0; i < 2; ++i) scene.Make(scene.Settle());
  scene.spec().image = "busybox:nope";
  Wait(scene, 1, "ErrImagePull",
       "failed to resolve reference \"docker.io/library/busybox:nope\": "
       "docker.io/library/busybox:nope: not found");
  EXPECT_EQ(
      ReasonOf(scene),
      "machine 1 cannot start on node node-1, because its image cannot be pulled: busybox:nope; "
      "there is no such image: correct its name or tag");
  Wait(scene, 1, "ImagePullBackOff",
       "Back-off pulling image \"busybox:nope\": ErrImagePull: docker.io/library/busybox:nope: "
       "not found");
  scene.Pass(seconds(1));
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(Reason, IsAQuotasOrAnAdmissionsRefusal) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Settle();
  scene.notes().refusal = Refusal{Refusal::Kind::kForbidden, "pod gpt-0",
                                  "pods \"gpt-0\" is forbidden: exceeded quota: gpus"};
  scene.notes().make_again = scene.now.boot + seconds(10);
  scene.Pass(seconds(1));  // such details are written once a second
  EXPECT_EQ(
      ReasonOf(scene),
      "pod gpt-0 may not be created: exceeded quota: gpus; lower the requests, or raise the quota");
}

TEST(Reason, IsNoRefusalOnceWhatWasRefusedIsThere) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Make(scene.Settle());
  const Decision pods = scene.Settle();
  scene.notes().refusal = Refusal{Refusal::Kind::kForbidden, "pod gpt-0", "exceeded quota: gpus"};
  scene.notes().make_again = scene.now.boot + seconds(10);
  scene.Make(pods);  // the answer to one of these was lost
  scene.Settle();
  EXPECT_THAT(scene.status().reason, testing::Not(HasSubstr("may not be created")));
  EXPECT_TRUE(scene.Decide().nothing_missing) << "so the next refusal is the first again";
}

TEST(Reason, NamesTheClaimThatSeveralMachinesWaitFor) {
  Scene scene(MakeJob("gpt").Machines(4));
  for (int i = 0; i < 2; ++i) scene.Make(scene.Settle());
  scene.spec().checkpoint.claim = "ckpt";
  for (int machine = 1; machine < 4; ++machine) {
    scene.machine(machine).stage = Stage::kPlaced;
    scene.machine(machine).unprepared = true;
  }
  EXPECT_EQ(ReasonOf(scene), "3 of 4 containers are being created (images, volumes)");
  scene.Pass(seconds(31));
  EXPECT_THAT(ReasonOf(scene),
              testing::AllOf(HasSubstr("3 of 4 machines wait for their volumes"),
                             HasSubstr("claim ckpt must be ReadWriteMany"),
                             HasSubstr("a ReadWriteOnce volume is mounted on one")));
}

TEST(Reason, IsThatNoAgentCanBeReachedWhereANetworkPolicyCutsThemOff) {
  Scene scene(MakeJob("gpt").Machines(2));
  for (int i = 0; i < 2; ++i) scene.Make(scene.Settle());
  scene.snapshot().gang_error = "cannot reach 10.0.0.1:7070: Connection timed out";
  EXPECT_EQ(ReasonOf(scene), "the agent of machine 0 has not answered yet");
  scene.Pass(seconds(16));
  EXPECT_THAT(ReasonOf(scene), HasSubstr("a NetworkPolicy must allow the operator's namespace"));
}

TEST(Reason, IsThatMachine0AnswersAsNoAgentDoes) {
  Scene scene(MakeJob("gpt").Machines(2));
  for (int i = 0; i < 2; ++i) scene.Make(scene.Settle());
  scene.snapshot().gang_error = "10.0.0.1:7070 answered GET /status with 302";
  scene.snapshot().gang_unreadable = true;
  scene.Pass(seconds(16));
  EXPECT_THAT(ReasonOf(scene), HasSubstr("machine 0 answers on port 7070, but not like an agent"));
}

TEST(Reason, OfAGangThatIsCutOffWhileItRunsIsThatItsStatusIsOld) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.snapshot().gang_error = "cannot reach 10.0.0.1:7070: Connection timed out";
  scene.Pass(minutes(1));
  EXPECT_EQ(ReasonOf(scene), "");
  scene.Pass(minutes(2));
  EXPECT_THAT(ReasonOf(scene), HasSubstr("the status shown is old"));
  EXPECT_EQ(scene.status().state, core::JobState::kRunning);
  scene.snapshot().gang_error.clear();
  scene.Running();
  scene.Pass(seconds(1));
  EXPECT_EQ(ReasonOf(scene), "");
}

TEST(Reason, OfABackoffSaysWhenItEndsAndDoesNotCountDown) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  const auto back_off = [&] {
    core::GangStatus& gang = scene.Report(core::CoordinatorPhase::kBackoff);
    gang.reason = "waiting 30 s before the next generation: restart 2 of 3";
    gang.starts_again = seconds(100);
  };
  back_off();
  const std::string at = FormatWallTime(*scene.machine(0).started + seconds(100));
  EXPECT_EQ(ReasonOf(scene),
            "waiting 30 s before the next generation: restart 2 of 3; starts again at " + at);
  scene.Pass(seconds(5));
  back_off();
  EXPECT_TRUE(WritesNothing(scene.Decide()));
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
  EXPECT_EQ(ReasonOf(scene), "the agent of machine 0 has not answered yet");
}

}  // namespace
}  // namespace lockstep::control
