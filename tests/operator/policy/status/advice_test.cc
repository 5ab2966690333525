// The messages are those of kube-scheduler, kubelet, containerd and kube-apiserver, as they stand
// in pods and answers.
#include "operator/policy/status/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::control {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Advice, AGpuThatNoNodeHasIsALookAtTheDevicePlugin) {
  EXPECT_THAT(
      AdviceOnScheduling("0/3 nodes are available: 3 Insufficient nvidia.com/gpu. no new claims to "
                         "deallocate, preemption: 0/3 nodes are available: 3 Preemption is not "
                         "helpful for scheduling."),
      testing::AllOf(HasSubstr("no node has as much nvidia.com/gpu free"),
                     HasSubstr("device plugin")));
}

TEST(Advice, AMachineThatIsTooLargeForEveryNodeIsToldHowLargeTheLargestIs) {
  const char* message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: none";
  std::map<std::string, Quantity> largest = {{"nvidia.com/gpu", Quantity::FromUnits(8)}};
  EXPECT_EQ(AdviceOnScheduling(message, Quantity::FromUnits(16), largest),
            "a machine asks for 16 nvidia.com/gpu and the largest node has 8: add larger nodes, or "
            "lower spec.resourcesPerProcess.gpu");
  EXPECT_EQ(AdviceOnScheduling(message, Quantity::FromUnits(8), largest),
            "no node has as much nvidia.com/gpu free: lower "
            "spec.resourcesPerProcess.gpu, wait, or add nodes");
  largest = {{"cpu", Quantity::FromUnits(8)}};
  EXPECT_THAT(AdviceOnScheduling(message, Quantity::FromUnits(8), largest),
              HasSubstr("no node has nvidia.com/gpu: check whether its device plugin runs"));
}

TEST(Advice, TooLittleCpuIsAQuestionOfNodes) {
  EXPECT_THAT(AdviceOnScheduling(
                  "0/4 nodes are available: 1 node(s) had untolerated taint "
                  "{node-role.kubernetes.io/control-plane: }, 3 Insufficient cpu, 3 Insufficient "
                  "memory. preemption: 0/4 nodes are available: 4 Preemption is not helpful."),
              testing::AllOf(HasSubstr("as much cpu free"), HasSubstr("add nodes")));
}

TEST(Advice, AVolumeClaimThatIsNotBoundIsDescribed) {
  EXPECT_THAT(AdviceOnScheduling("0/3 nodes are available: pod has unbound immediate "
                                 "PersistentVolumeClaims. not found"),
              HasSubstr("kubectl describe pvc"));
  EXPECT_THAT(AdviceOnScheduling("0/3 nodes are available: 3 node(s) didn't find available "
                                 "persistent volumes to bind."),
              HasSubstr("kubectl describe pvc"));
}

TEST(Advice, AVolumeClaimThatIsNotThereIsToBeMade) {
  EXPECT_THAT(AdviceOnScheduling("0/3 nodes are available: persistentvolumeclaim \"ckpt\" not "
                                 "found. preemption: 0/3 nodes are available."),
              HasSubstr("make that claim"));
}

TEST(Advice, AVolumeForOneNodeMustBeReadWriteMany) {
  EXPECT_THAT(AdviceOnScheduling(
                  "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had volume node affinity "
                  "conflict. preemption: 0/3 nodes are available."),
              HasSubstr("ReadWriteMany"));
  EXPECT_THAT(AdviceOnScheduling("0/3 nodes are available: 3 node has pod using "
                                 "PersistentVolumeClaim with the same name and ReadWriteOncePod "
                                 "access mode."),
              HasSubstr("ReadWriteMany"));
  // Kubernetes 1.36 says it otherwise than those before it.
  EXPECT_THAT(AdviceOnScheduling("0/3 nodes are available: 1 node(s) didn't match pod topology "
                                 "spread constraints, 2 node(s) didn't match PersistentVolume's "
                                 "node affinity. no new claims to deallocate"),
              HasSubstr("ReadWriteMany"));
}

TEST(Advice, TaintsSpreadAndLabelsAreToldApart) {
  EXPECT_THAT(AdviceOnScheduling("0/1 nodes are available: 1 node(s) had untolerated taint {gpu: "
                                 "yes}. preemption: none"),
              HasSubstr("tolerate"));
  EXPECT_THAT(AdviceOnScheduling("0/3 nodes are available: 3 node(s) didn't match pod topology "
                                 "spread constraints."),
              HasSubstr("onePerNode"));
  EXPECT_THAT(AdviceOnScheduling("0/3 nodes are available: 3 node(s) didn't match Pod's node "
                                 "affinity/selector."),
              HasSubstr("labels"));
}

TEST(Advice, WhatItDoesNotKnowItSaysNothingAbout) {
  EXPECT_THAT(AdviceOnScheduling("0/3 nodes are available: 3 moon is in the wrong house"),
              IsEmpty());
  EXPECT_THAT(AdviceOnContainer("CrashLoopBackOff", "back-off 10s"), IsEmpty());
  EXPECT_THAT(AdviceOnRefusal("admission webhook \"x\" denied the request: no"), IsEmpty());
}

TEST(Advice, ARegistryThatIsNotThereIsNoMissingImage) {
  for (const char* message :
       {"failed to pull and unpack image \"registry.example/a:1\": failed to resolve reference "
        "\"registry.example/a:1\": failed to do request: Head "
        "\"https://registry.example/v2/a/manifests/1\": dial tcp: lookup registry.example on "
        "10.96.0.10:53: no such host",
        "Back-off pulling image \"10.1.2.3:5000/a:1\": ErrImagePull: failed to pull and unpack "
        "image \"10.1.2.3:5000/a:1\": failed to do request: Head "
        "\"https://10.1.2.3:5000/v2/a/manifests/1\": dial tcp 10.1.2.3:5000: connect: connection "
        "refused",
        "failed to do request: Head \"https://r/v2/a/manifests/1\": tls: failed to verify "
        "certificate: x509: certificate signed by unknown authority"}) {
    EXPECT_THAT(AdviceOnContainer("ErrImagePull", message),
                HasSubstr("its registry cannot be reached"))
        << message;
  }
}

TEST(Advice, AnImageThatIsNotThereIsToBeCorrected) {
  EXPECT_THAT(
      AdviceOnContainer("ImagePullBackOff",
                        "Back-off pulling image \"busybox:nope\": ErrImagePull: rpc error: code = "
                        "NotFound desc = failed to pull and unpack image "
                        "\"docker.io/library/busybox:nope\": failed to resolve reference "
                        "\"docker.io/library/busybox:nope\": docker.io/library/busybox:nope: not "
                        "found"),
      HasSubstr("there is no such image"));
  EXPECT_THAT(AdviceOnContainer("InvalidImageName",
                                "Failed to apply default image tag \"Busy Box\": couldn't parse "
                                "image name \"Busy Box\": invalid reference format"),
              HasSubstr("not an image name"));
}

TEST(Advice, ARegistryThatAsksForCredentialsIsGivenSome) {
  for (const char* message :
       {"failed to pull and unpack image \"docker.io/library/nonesuch:latest\": failed to resolve "
        "reference \"docker.io/library/nonesuch:latest\": pull access denied, repository does not "
        "exist or may require authorization: server message: insufficient_scope: authorization "
        "failed",
        "failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized"}) {
    EXPECT_THAT(AdviceOnContainer("ErrImagePull", message), HasSubstr("spec.imagePullSecrets"));
  }
}

TEST(Advice, AContainerThatCannotBeConfiguredSaysWhatItLacks) {
  EXPECT_THAT(AdviceOnContainer("CreateContainerConfigError", "secret \"token\" not found"),
              HasSubstr("env"));
  EXPECT_THAT(AdviceOnContainer("CreateContainerConfigError",
                                "couldn't find key HF_TOKEN in Secret default/token"),
              HasSubstr("env"));
  EXPECT_THAT(AdviceOnContainer("CreateContainerConfigError",
                                "container has runAsNonRoot and image will run as root (pod: "
                                "\"gpt-0_default(1)\", container: worker)"),
              HasSubstr("runAsUser"));
}

TEST(Advice, RefusalsOfTheApiServerAreToldApart) {
  EXPECT_THAT(
      AdviceOnRefusal("pods \"gpt-0\" is forbidden: violates PodSecurity \"restricted:latest\": "
                      "runAsNonRoot != true (pod or container \"worker\" must set "
                      "securityContext.runAsNonRoot=true)"),
      HasSubstr("spec.template"));
  EXPECT_THAT(AdviceOnRefusal("pods \"gpt-0\" is forbidden: exceeded quota: gpus, requested: "
                              "requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=0, "
                              "limited: requests.nvidia.com/gpu=4"),
              HasSubstr("quota"));
  EXPECT_THAT(AdviceOnRefusal("pods \"gpt-0\" is forbidden: failed quota: q: must specify "
                              "requests.cpu for: worker"),
              HasSubstr("spec.resourcesPerProcess"));
  EXPECT_THAT(AdviceOnRefusal("pods is forbidden: User "
                              "\"system:serviceaccount:lockstep:operator\" cannot create resource "
                              "\"pods\" in API group \"\" in the namespace \"a\""),
              HasSubstr("Role"));
  EXPECT_THAT(AdviceOnRefusal("pods \"gpt-0\" is forbidden: no PriorityClass with name high was "
                              "found"),
              HasSubstr("priorityClassName"));
}

const std::map<std::string, std::string> kInstaller = {{"cpu", "100m"}, {"memory", "32Mi"}};

TEST(Advice, AContainerThatALimitRangeBoundsIsNamed) {
  EXPECT_EQ(AdviceOnRefusal("pods \"gpt-0\" is forbidden: minimum memory usage per Container is "
                            "100Mi, but request is 32Mi",
                            kInstaller),
            "that is init container lockstep-install: set value agent.resources.memory of the "
            "operator's chart to 100Mi");
  EXPECT_EQ(AdviceOnRefusal("pods \"gpt-0\" is forbidden: maximum memory usage per Container is "
                            "1Gi, but limit is 2Gi",
                            kInstaller),
            "the namespace's LimitRange bounds container worker: set "
            "spec.resourcesPerProcess.memory");
  EXPECT_THAT(AdviceOnRefusal("pods \"gpt-0\" is forbidden: [minimum cpu usage per Container is "
                              "200m, but request is 150m, minimum memory usage per Container is "
                              "100Mi, but request is 32Mi]",
                              kInstaller),
              HasSubstr("agent.resources.memory of the operator's chart to 100Mi"));
  EXPECT_EQ(AdviceOnRefusal("pods \"gpt-0\" is forbidden: minimum ephemeral-storage usage per "
                            "Container is 1Gi.  No request is specified",
                            kInstaller),
            "the namespace's LimitRange bounds container worker: set "
            "spec.resourcesPerMachine.ephemeral-storage, and for lockstep-install value "
            "agent.resources.ephemeral-storage of the operator's chart");
  EXPECT_EQ(AdviceOnRefusal("pods \"gpt-0\" is forbidden: minimum memory usage per Container is "
                            "100Mi.  No request is specified",
                            kInstaller),
            "the namespace's LimitRange bounds container worker: set "
            "spec.resourcesPerProcess.memory")
      << "lockstep-install asks for some";
  EXPECT_THAT(AdviceOnRefusal("pods \"gpt-0\" is forbidden: cpu max limit to request ratio per "
                              "Container is 2, but no limit is specified or limit is 0",
                              kInstaller),
              HasSubstr("topology.policy: Required"));
}

TEST(Advice, TheContainersThatAQuotaNamesAreToldApart) {
  EXPECT_EQ(AdviceOnRefusal("pods \"gpt-0\" is forbidden: failed quota: q: must specify "
                            "limits.ephemeral-storage for: lockstep-install,worker; "
                            "requests.ephemeral-storage for: lockstep-install,worker",
                            kInstaller),
            "the quota requires a request or limit of every container: set value "
            "agent.resources.ephemeral-storage of the operator's chart for lockstep-install, and "
            "spec.resourcesPerMachine.ephemeral-storage");
  EXPECT_THAT(AdviceOnRefusal("pods \"gpt-0\" is forbidden: failed quota: q: must specify "
                              "limits.cpu for: worker",
                              kInstaller),
              HasSubstr("a default limit of cpu in a LimitRange"));
}

TEST(Advice, OfALongMessageTheEndGivesWay) {
  const std::string text = Compose("it is so", std::string(1000, 'x'), "do that", 100);
  EXPECT_EQ(text.size(), 100U);
  EXPECT_TRUE(text.starts_with("it is so: xxx"));
  EXPECT_TRUE(text.ends_with("...; do that"));
  EXPECT_EQ(Compose("it is so", "", "do that", 100), "it is so: do that");
  EXPECT_EQ(Compose("it is so", "because", "", 100), "it is so: because");
  EXPECT_EQ(Compose("it is so", "", "", 100), "it is so");
}

}  // namespace
}  // namespace lockstep::control
