#include "operator/objects/service_objects.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/operator/policy/make_job.h"

namespace lockstep::control {
namespace {

using nlohmann::json;

json Metadata(const std::string& name) {
  json metadata = json::parse(R"({
    "namespace": "team",
    "labels": {"lockstep.dev/job": "gpt",
               "app.kubernetes.io/name": "lockstep", "app.kubernetes.io/instance": "gpt",
               "app.kubernetes.io/component": "machine",
               "app.kubernetes.io/managed-by": "lockstep-operator"},
    "ownerReferences": [{"apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob",
                         "name": "gpt", "uid": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",
                         "controller": true, "blockOwnerDeletion": true}]})");
  metadata["name"] = name;
  return metadata;
}

TEST(HeadlessService, NamesEveryMachineBeforeItIsReady) {
  const json service = json::parse(HeadlessServiceObject(MakeJob("gpt")));
  EXPECT_EQ(service["apiVersion"], "v1");
  EXPECT_EQ(service["kind"], "Service");
  EXPECT_EQ(service["metadata"], Metadata("gpt"));
  EXPECT_EQ(service["spec"], json::parse(R"({
    "clusterIP": "None", "ipFamilyPolicy": "PreferDualStack", "publishNotReadyAddresses": true,
    "ports": [{"name": "lockstep-gang", "port": 7070, "targetPort": 7070, "protocol": "TCP"},
              {"name": "lockstep-http", "port": 7071, "targetPort": 7071, "protocol": "TCP"}]})"));
}

TEST(CoordinatorService, SelectsNoPods) {
  const json service = json::parse(CoordinatorServiceObject(MakeJob("gpt")));
  EXPECT_EQ(service["metadata"], Metadata("gpt-coordinator"));
  EXPECT_EQ(service["spec"], json::parse(R"({
    "type": "ClusterIP", "publishNotReadyAddresses": true,
    "ports": [{"name": "lockstep-gang", "port": 7070, "targetPort": 7070, "protocol": "TCP"}]})"));
}

TEST(CoordinatorService, IsPointedElsewhereOnlyWhileItIsTheSame) {
  EXPECT_EQ(json::parse(CoordinatorServicePatch("uid-1", 7)), json::parse(R"({
    "metadata": {"uid": "uid-1"}, "spec": {"selector": {"lockstep.dev/attempt": "7"}}})"));
}

}  // namespace
}  // namespace lockstep::control
