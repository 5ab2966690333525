#include "operator/objects/endpoint_slice.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/operator/policy/make_job.h"

namespace lockstep::control {
namespace {

using core::SliceKey;
using nlohmann::json;

const core::MachineEndpoint kMachine0{.machine = 0,
                                      .attempt = 7,
                                      .address = "10.64.3.7",
                                      .node = "n3",
                                      .name = "gpt-0-r7",
                                      .uid = "uid-of-the-pod"};

TEST(EndpointSlice, TheCoordinatorsIsKubeProxysToRead) {
  const SliceKey key{.coordinator = true};
  const json slice = json::parse(EndpointSliceObject(MakeJob("gpt"), key, "", {kMachine0}));
  EXPECT_EQ(slice["apiVersion"], "discovery.k8s.io/v1");
  EXPECT_EQ(slice["kind"], "EndpointSlice");
  EXPECT_EQ(slice["addressType"], "IPv4");
  const json& metadata = slice["metadata"];
  EXPECT_EQ(metadata["name"], "gpt-coordinator");
  EXPECT_FALSE(metadata.contains("uid"));
  EXPECT_EQ(metadata["labels"]["lockstep.dev/job"], "gpt");
  EXPECT_EQ(metadata["labels"]["kubernetes.io/service-name"], "gpt-coordinator");
  EXPECT_EQ(metadata["labels"]["endpointslice.kubernetes.io/managed-by"], "lockstep.dev");
  EXPECT_FALSE(metadata["labels"].contains("service.kubernetes.io/headless"));
  EXPECT_EQ(metadata["ownerReferences"][0]["kind"], "TrainingJob");
  EXPECT_EQ(slice["ports"],
            json::parse(R"([{"name": "lockstep-gang", "port": 7070, "protocol": "TCP"}])"));
  EXPECT_EQ(slice["endpoints"], json::parse(R"([{
    "addresses": ["10.64.3.7"], "conditions": {"ready": true}, "nodeName": "n3",
    "targetRef": {"kind": "Pod", "namespace": "team", "name": "gpt-0-r7",
                  "uid": "uid-of-the-pod"}}])"));
}

TEST(EndpointSlice, NamesHaveHostnamesAndAreKeptFromKubeProxy) {
  core::MachineEndpoint machine = kMachine0;
  machine.machine = 501;
  machine.address = "fd00::7";
  machine.node = "";
  const SliceKey key{.number = 1, .ipv6 = true};
  const json slice = json::parse(EndpointSliceObject(MakeJob("gpt"), key, "uid-1", {machine}));
  EXPECT_EQ(slice["addressType"], "IPv6");
  EXPECT_EQ(slice["metadata"]["name"], "gpt-1-ipv6");
  EXPECT_EQ(slice["metadata"]["uid"], "uid-1");
  EXPECT_EQ(slice["metadata"]["labels"]["kubernetes.io/service-name"], "gpt");
  EXPECT_EQ(slice["metadata"]["labels"]["service.kubernetes.io/headless"], "");
  EXPECT_EQ(slice["ports"].size(), 2U);
  ASSERT_EQ(slice["endpoints"].size(), 1U);
  EXPECT_EQ(slice["endpoints"][0]["hostname"], "gpt-501");
  EXPECT_FALSE(slice["endpoints"][0].contains("nodeName"));
}

TEST(EndpointSlice, AnEmptyOneHasAnEmptyList) {
  const json slice = json::parse(EndpointSliceObject(MakeJob("gpt"), {}, "uid-1", {}));
  EXPECT_EQ(slice["endpoints"], json::array());
}

TEST(EndpointSlice, AnOperatorKnowsItsOwnByTheirNames) {
  for (const SliceKey& key :
       {SliceKey{.coordinator = true}, SliceKey{.coordinator = true, .ipv6 = true}, SliceKey{},
        SliceKey{.number = 12}, SliceKey{.number = 3, .ipv6 = true}}) {
    EXPECT_EQ(SliceKeyOf("gpt", EndpointSliceName("gpt", key)), key);
  }
  for (const char* other : {"gpt", "gpt-", "gpt-x2b4c", "gpt-ipv6", "gpt2-0", "other-0"}) {
    EXPECT_FALSE(SliceKeyOf("gpt", other)) << other;
  }
}

}  // namespace
}  // namespace lockstep::control
