#include "operator/kube/decode/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/operator/kube/random_objects.h"

namespace lockstep::kube {
namespace {

using Json = RandomObjects::Json;
using testing::HasSubstr;

// The views once more, by another JSON library, as plainly as can be.
namespace plain {

const Json kNull;

const Json& At(const Json& object, const char* key) {
  if (!object.is_object()) return kNull;
  auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::string Text(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

bool Flag(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_boolean() && value.get<bool>();
}

template <typename Number>
Number Integer(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_number_integer() ? value.get<Number>() : 0;
}

std::optional<WallTime> Time(const Json& object, const char* key) {
  auto time = ParseWallTime(Text(object, key));
  if (!time.ok()) return std::nullopt;
  return *time;
}

template <typename Number>
Number NumberOr(const std::string& text, Number otherwise) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? number : otherwise;
}

std::vector<Json> Elements(const Json& object, const char* key) {
  const Json& value = At(object, key);
  return value.is_array() ? std::vector<Json>(value.begin(), value.end()) : std::vector<Json>{};
}

ObjectMeta Meta(const Json& object) {
  const Json& meta = At(object, "metadata");
  ObjectMeta view;
  view.name = Text(meta, "name");
  view.name_space = Text(meta, "namespace");
  view.uid = Text(meta, "uid");
  view.resource_version = Text(meta, "resourceVersion");
  view.generation = Integer<int64_t>(meta, "generation");
  if (auto created = Time(meta, "creationTimestamp")) view.created = *created;
  view.deleted = Time(meta, "deletionTimestamp");
  for (const Json& owner : Elements(meta, "ownerReferences")) {
    if (Flag(owner, "controller")) view.owner_uid = Text(owner, "uid");
  }
  return view;
}

std::string Label(const Json& object, const char* key) {
  return Text(At(At(object, "metadata"), "labels"), key);
}

ContainerState State(const Json& container) {
  ContainerState state;
  const Json& json = At(container, "state");
  using Kind = ContainerState::Kind;
  for (auto [key, kind] : {std::pair("waiting", Kind::kWaiting),
                           {"running", Kind::kRunning},
                           {"terminated", Kind::kTerminated}}) {
    const Json& fields = At(json, key);
    if (!fields.is_object()) continue;
    state.kind = kind;
    state.reason = Text(fields, "reason");
    state.message = Text(fields, "message");
    state.exit_code = Integer<int32_t>(fields, "exitCode");
    state.signal = Integer<int32_t>(fields, "signal");
    state.started = Time(fields, "startedAt");
    state.finished = Time(fields, "finishedAt");
  }
  return state;
}

void Read(const Json& json, PodView& pod) {
  pod.meta = Meta(json);
  pod.job = Label(json, "lockstep.dev/job");
  pod.machine = NumberOr<int32_t>(Label(json, "lockstep.dev/machine"), -1);
  pod.attempt = NumberOr<uint32_t>(Label(json, "lockstep.dev/attempt"), 0);
  pod.node = Text(At(json, "spec"), "nodeName");
  const Json& status = At(json, "status");
  const std::string phase = Text(status, "phase");
  for (auto [name, value] : {std::pair("Pending", PodPhase::kPending),
                             {"Running", PodPhase::kRunning},
                             {"Succeeded", PodPhase::kSucceeded},
                             {"Failed", PodPhase::kFailed}}) {
    if (phase == name) pod.phase = value;
  }
  pod.pod_ip = Text(status, "podIP");
  pod.host_ip = Text(status, "hostIP");
  pod.reason = Text(status, "reason");
  pod.message = Text(status, "message");
  for (const Json& condition : Elements(status, "conditions")) {
    const std::string type = Text(condition, "type");
    const std::string value = Text(condition, "status");
    if (type == "Ready") pod.ready = value == "True";
    if (type == "PodScheduled") pod.scheduled = value == "True";
    if (type == "PodScheduled" && value == "False") {
      pod.schedule_reason = Text(condition, "reason");
      pod.schedule_message = Text(condition, "message");
    }
    if (type == "PodReadyToStartContainers") pod.unprepared = value == "False";
    if (type == "DisruptionTarget" && value == "True") pod.disruption = Text(condition, "reason");
  }
  for (const Json& container : Elements(status, "containerStatuses")) {
    if (Text(container, "name") == "worker") pod.worker = State(container);
  }
  for (const Json& container : Elements(status, "initContainerStatuses")) {
    const ContainerState state = State(container);
    const bool stuck = state.kind == ContainerState::Kind::kWaiting ||
                       (state.kind == ContainerState::Kind::kTerminated && state.exit_code != 0);
    if (!stuck || pod.init.kind != ContainerState::Kind::kNone) continue;
    pod.init_name = Text(container, "name");
    pod.init = state;
  }
}

void Read(const Json& json, JobView& job) {
  job.meta = Meta(json);
  Json rest = json;
  if (At(At(json, "metadata"), "managedFields").is_array()) rest["metadata"].erase("managedFields");
  job.json = rest.dump();
  const Json& epoch = At(At(json, "status"), "epoch");
  job.begun = epoch.is_number_integer() && epoch.get<int64_t>() > 0;
}

void Read(const Json& json, WorkloadView& workload) {
  JobView same;
  Read(json, same);
  workload = {same.meta, Label(json, "lockstep.dev/job"), same.json};
}

void Read(const Json& json, FlavorView& flavor) {
  JobView same;
  Read(json, same);
  flavor = {same.meta, same.json};
}

void Read(const Json& json, ServiceView& service) {
  service.meta = Meta(json);
  service.job = Label(json, "lockstep.dev/job");
  service.cluster_ip = Text(At(json, "spec"), "clusterIP");
  const Json& selector = At(At(json, "spec"), "selector");
  service.selects = selector.is_object() && !selector.empty();
  if (At(selector, "lockstep.dev/attempt").is_string()) {
    service.selector_attempt = NumberOr<uint32_t>(Text(selector, "lockstep.dev/attempt"), 0);
  }
}

void Read(const Json& json, SliceView& slice) {
  slice.meta = Meta(json);
  slice.job = Label(json, "lockstep.dev/job");
  Fingerprint print;
  for (const Json& endpoint : Elements(json, "endpoints")) {
    std::string address;
    for (const Json& each : Elements(endpoint, "addresses")) {
      if (!each.is_string()) continue;
      address = each.get<std::string>();
      break;
    }
    print.Add(Text(At(endpoint, "targetRef"), "uid")).Add(address);
  }
  slice.endpoints = print.value();
}

void AddSign(const std::string& sign, const std::string& name, std::vector<std::string>& signs) {
  if (!name.empty() && signs.size() < kMostSigns && sign.size() <= (8 << 10) + 1) {
    signs.push_back(sign);
  }
}

void Read(const Json& json, NodeView& node) {
  node.meta = Meta(json);
  node.unschedulable = Flag(At(json, "spec"), "unschedulable");
  const Json& suspect = At(At(At(json, "metadata"), "annotations"), "lockstep.dev/suspect");
  if (suspect.is_string()) node.suspect = suspect.get<std::string>();
  for (const Json& taint : Elements(At(json, "spec"), "taints")) {
    const std::string key = Text(taint, "key");
    if (key == "node.kubernetes.io/unreachable") node.unreachable = true;
    if (key == "node.kubernetes.io/out-of-service") node.out_of_service = true;
    AddSign(key + ":" + Text(taint, "effect"), key, node.taints);
  }
  for (const Json& condition : Elements(At(json, "status"), "conditions")) {
    const std::string type = Text(condition, "type");
    const std::string value = Text(condition, "status");
    if (type == "Ready") {
      node.ready = value == "True";
    } else if (value == "True" || value == "False") {
      std::string sign = type;
      sign += "=";
      sign += value;
      AddSign(sign, type, node.conditions);
    }
  }
  const Json& allocatable = At(At(json, "status"), "allocatable");
  if (!allocatable.is_object()) return;
  for (const auto& [resource, amount] : allocatable.items()) {
    const auto parsed = Quantity::Parse(amount.is_string() ? amount.get<std::string>() : "");
    if (parsed.ok()) node.allocatable[resource] = *parsed;
  }
}

}  // namespace plain

// Text with room behind it, as the Reflector's buffer has.
class Padded {
 public:
  explicit Padded(const std::string& text) : text_(text + std::string(kDecodePadding, 'x')) {}
  std::string_view text() const {
    return std::string_view(text_).substr(0, text_.size() - kDecodePadding);
  }

 private:
  std::string text_;
};

template <typename T>
Result<WatchLine> ReadLine(const std::string& text, T* view) {
  Decoder decoder;
  return decoder.Line(Padded(text).text(), view);
}

template <typename T>
void BothReadersAgree(const Json& object, Decoder& decoder) {
  T expected;
  plain::Read(object, expected);
  SCOPED_TRACE(object.dump());

  const Json event = {{"type", "MODIFIED"}, {"object", object}};
  T view;
  auto line = decoder.Line(Padded(event.dump() + "\n").text(), &view);
  ASSERT_TRUE(line.ok()) << line.error().message;
  EXPECT_EQ(line->type, WatchLine::Type::kModified);
  EXPECT_EQ(line->resource_version, expected.meta.resource_version);
  EXPECT_EQ(view, expected);

  auto alone = decoder.Object<T>(object.dump());
  ASSERT_TRUE(alone.ok()) << alone.error().message;
  EXPECT_EQ(*alone, expected);

  const Json list = {{"metadata", {{"resourceVersion", "7"}, {"continue", "more"}}},
                     {"items", {object, object}}};
  std::vector<T> items;
  auto page = decoder.Page(list.dump(), &items);
  ASSERT_TRUE(page.ok()) << page.error().message;
  EXPECT_EQ(page->resource_version, "7");
  EXPECT_EQ(page->next, "more");
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[0], expected);
  EXPECT_EQ(items[1], expected);
}

class DecodeRandom : public testing::TestWithParam<int> {};

TEST_P(DecodeRandom, ReadsWhatAnotherJsonLibraryReads) {
  Decoder decoder;
  for (uint64_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    RandomObjects random(seed, GetParam());
    BothReadersAgree<PodView>(random.Pod(), decoder);
    BothReadersAgree<ServiceView>(random.Service(), decoder);
    BothReadersAgree<SliceView>(random.Slice(), decoder);
    BothReadersAgree<NodeView>(random.Node(), decoder);
    BothReadersAgree<JobView>(random.TrainingJob(), decoder);
    BothReadersAgree<WorkloadView>(random.Service(), decoder);
    BothReadersAgree<FlavorView>(random.TrainingJob(), decoder);
  }
}

INSTANTIATE_TEST_SUITE_P(OddValuesOfAHundred, DecodeRandom, testing::Values(0, 10, 40));

TEST(Decode, APodThatKueueTookForItselfIsSeenToBe) {
  Decoder decoder;
  for (const char* gate : {"kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"}) {
    const Json object = {{"metadata", {{"name", "gpt-0"}}},
                         {"spec", {{"schedulingGates", {{{"name", gate}}}}}}};
    const auto pod = decoder.Object<PodView>(object.dump());
    ASSERT_TRUE(pod.ok());
    EXPECT_EQ(pod->taken, std::string(gate).ends_with("/admission"));
  }
}

TEST(Decode, ANodeShowsItsSignsOfSickness) {
  Decoder decoder;
  const Json object = {
      {"metadata", {{"name", "a"}, {"annotations", {{"lockstep.dev/suspect", "ECC errors"}}}}},
      {"spec",
       {{"unschedulable", true},
        {"taints", {{{"key", "nvidia.com/gpu-error"}, {"effect", "NoSchedule"}}}}}},
      {"status",
       {{"conditions",
         {{{"type", "Ready"}, {"status", "True"}},
          {{"type", "KernelDeadlock"}, {"status", "True"}},
          {{"type", "GpuHealthy"}, {"status", "Unknown"}}}}}}};
  const auto node = decoder.Object<NodeView>(object.dump());
  ASSERT_TRUE(node.ok());
  EXPECT_TRUE(node->ready);
  EXPECT_TRUE(node->unschedulable);
  EXPECT_EQ(node->suspect, "ECC errors");
  EXPECT_EQ(node->taints, std::vector<std::string>{"nvidia.com/gpu-error:NoSchedule"});
  EXPECT_EQ(node->conditions, std::vector<std::string>{"KernelDeadlock=True"});
}

TEST(Decode, AClaimSaysWhoseTheNamespaceIsAndForHowLong) {
  Decoder decoder;
  const Json lease = {{"metadata", {{"name", "lockstep-jobs"}, {"namespace", "team-a"}}},
                      {"spec", {{"holderIdentity", "system/one"}, {"leaseDurationSeconds", 60}}}};
  const auto claim = decoder.Object<ClaimView>(lease.dump());
  ASSERT_TRUE(claim.ok());
  EXPECT_EQ(claim->meta.name_space, "team-a");
  EXPECT_EQ(claim->holder, "system/one");
  EXPECT_EQ(claim->seconds, 60);
  const auto released = decoder.Object<ClaimView>(R"({"metadata":{"name":"x"},"spec":{}})");
  ASSERT_TRUE(released.ok());
  EXPECT_EQ(released->holder, "");
}

TEST(Decode, ABookmarkCarriesItsVersionAndTheEndOfTheInitialState) {
  PodView pod;
  auto line = ReadLine(
      R"({"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"12746","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}})",
      &pod);
  ASSERT_TRUE(line.ok()) << line.error().message;
  EXPECT_EQ(line->type, WatchLine::Type::kBookmark);
  EXPECT_EQ(line->resource_version, "12746");
  EXPECT_TRUE(line->initial_events_end);
}

TEST(Decode, AnOrdinaryBookmarkEndsNoInitialState) {
  PodView pod;
  auto line =
      ReadLine(R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"3"}}})", &pod);
  ASSERT_TRUE(line.ok()) << line.error().message;
  EXPECT_FALSE(line->initial_events_end);
}

TEST(Decode, AnErrorInTheStreamIsAStatusWithItsCode) {
  PodView pod;
  const Json status = {{"kind", "Status"},
                       {"status", "Failure"},
                       {"message", "too old resource version: 1 (9)"},
                       {"reason", "Expired"},
                       {"code", 410}};
  auto line = ReadLine(Json({{"type", "ERROR"}, {"object", status}}).dump(), &pod);
  ASSERT_TRUE(line.ok()) << line.error().message;
  EXPECT_EQ(line->type, WatchLine::Type::kError);
  EXPECT_EQ(line->error.kind, ApiErrorKind::kGone);
  EXPECT_THAT(line->error.message, HasSubstr("too old resource version"));
}

TEST(Decode, TheObjectMayComeBeforeTheType) {
  PodView pod;
  auto line = ReadLine(R"({"object":{"metadata":{"name":"a"}},"type":"DELETED"})", &pod);
  ASSERT_TRUE(line.ok()) << line.error().message;
  EXPECT_EQ(line->type, WatchLine::Type::kDeleted);
  EXPECT_EQ(pod.meta.name, "a");
}

TEST(Decode, AnEventCutOffWithinItsObjectIsAnErrorAndReadsNothingBeyondIt) {
  RandomObjects random(5);
  const std::string whole = Json({{"type", "ADDED"}, {"object", random.Pod()}}).dump();
  Decoder decoder;
  for (size_t size = 0; size + 1 < whole.size(); ++size) {
    PodView pod;
    EXPECT_FALSE(decoder.Line(Padded(whole.substr(0, size)).text(), &pod).ok()) << size;
  }
}

TEST(Decode, AnAnswerThatIsNotJsonIsInvalidAndSaysSo) {
  Decoder decoder;
  auto pod = decoder.Object<PodView>("<html>bad gateway</html>");
  ASSERT_FALSE(pod.ok());
  EXPECT_EQ(pod.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(pod.error().message, HasSubstr("the API server sent an object"));
}

TEST(Decode, AnObjectWithoutANameIsInvalid) {
  Decoder decoder;
  EXPECT_FALSE(decoder.Object<NodeView>(R"({"metadata":{"uid":"1"}})").ok());
}

TEST(Decode, AListWithoutAVersionIsInvalid) {
  Decoder decoder;
  std::vector<PodView> items;
  EXPECT_FALSE(decoder.Page(R"({"items":[]})", &items).ok());
}

TEST(Decode, AnEmptyListOfGoIsNull) {
  Decoder decoder;
  std::vector<PodView> items;
  auto page = decoder.Page(R"({"metadata":{"resourceVersion":"8"},"items":null})", &items);
  ASSERT_TRUE(page.ok()) << page.error().message;
  EXPECT_TRUE(items.empty());
  EXPECT_EQ(page->next, "");
}

TEST(Decode, AJobKeepsItsJsonLessManagedFieldsWhereverTheyStand) {
  Decoder decoder;
  for (const char* meta : {R"("managedFields": [{"a":"]"}] , "name":"j")",
                           R"("name":"j" , "managedFields" : [ {"a":"]"} ])",
                           R"("name":"j","managedFields":[],"uid":"u")"}) {
    const std::string text = std::string(R"({"metadata":{)") + meta + R"(},"spec":{"x":[1]}})";
    auto job = decoder.Object<JobView>(text);
    ASSERT_TRUE(job.ok()) << job.error().message;
    Json expected = Json::parse(text);
    expected["metadata"].erase("managedFields");
    EXPECT_EQ(Json::parse(job->json), expected) << text << job->json;
  }
}

TEST(Decode, BracketsThatDoNotMatchInWhatIsSkippedDoNoHarm) {
  Decoder decoder;
  for (const char* text : {R"({"metadata":{"name":"j","managedFields":[{"a":x"b":{}}}],"u":"1"}})",
                           R"({"metadata":{"name":"j","managedFields":[}}}}}}})"}) {
    auto job = decoder.Object<JobView>(text);
    if (job.ok()) EXPECT_LE(job->json.size(), std::string(text).size());
  }
}

TEST(Decode, ASpareIsOfItsJobThoughItsLabelIsAnother) {
  Decoder decoder;
  auto pod = decoder.Object<PodView>(
      R"({"metadata":{"name":"a","labels":{"lockstep.dev/job":"gpt.spare","lockstep.dev/spare":"3"}}})");
  ASSERT_TRUE(pod.ok());
  EXPECT_EQ(pod->job, "gpt");
  EXPECT_EQ(pod->spare, 3);
  EXPECT_EQ(pod->machine, -1);
}

TEST(Decode, AnAttemptBeyondThirtyTwoBitsIsNone) {
  Decoder decoder;
  auto pod = decoder.Object<PodView>(
      R"({"metadata":{"name":"a","labels":{"lockstep.dev/attempt":"99999999999","lockstep.dev/machine":"1x"}}})");
  ASSERT_TRUE(pod.ok());
  EXPECT_EQ(pod->attempt, 0U);
  EXPECT_EQ(pod->machine, -1);
}

std::string JobText(size_t size, const std::string& status) {
  return R"({"metadata":{"name":"gpt","namespace":"a","managedFields":[{"x":"y"}]},)"
         R"("spec":{"image":")" +
         std::string(size, 'x') + R"("},"status":)" + status + "}";
}

TEST(Decode, OfAJobThatIsTooLargeTheStatusStaysWithTheReason) {
  Decoder decoder;
  Result<JobView> job = decoder.Object<JobView>(JobText(kMaxJobText, R"({"epoch":0})"));
  ASSERT_TRUE(job.ok());
  EXPECT_THAT(job->refusal, HasSubstr("the TrainingJob has 512 KiB"));
  EXPECT_EQ(job->json, R"({"status": {"epoch":0}})");
  EXPECT_EQ(job->meta.name, "gpt");
  for (const char* status : {R"({"epoch":3,"state":"Running"})", R"({"epoch":3})"}) {
    job = decoder.Object<JobView>(JobText(kMaxJobText, status));
    ASSERT_TRUE(job.ok());
    EXPECT_EQ(job->refusal, "") << "it has begun";
    EXPECT_TRUE(job->begun);
  }
  job = decoder.Object<JobView>(JobText(kMaxJobText, R"({"epoch":3,"state":"Failed"})"));
  ASSERT_TRUE(job.ok());
  EXPECT_NE(job->refusal, "") << "it has ended";
}

TEST(Decode, OfAWorkloadTheTemplatesOfItsPodsAreNotKept) {
  const std::string big(kMaxQueueText, 'x');
  const std::string json =
      R"({"metadata":{"name":"w","managedFields":[]},"spec":{"podSets":[{"count":2,"template":{"a":")" +
      big + R"("},"name":"main"},{"name":"b","template":{"a":")" + big +
      R"("}}],"active":true},"status":{}})";
  const Result<WorkloadView> workload = Decoder().Object<WorkloadView>(json);
  ASSERT_TRUE(workload.ok());
  EXPECT_EQ(workload->json,
            R"({"metadata":{"name":"w"},"spec":{"podSets":[{"count":2,"name":"main"},)"
            R"({"name":"b"}],"active":true},"status":{}})");
  EXPECT_FALSE(
      Decoder()
          .Object<WorkloadView>(R"({"metadata":{"name":"w"},"spec":{"a":")" + big + R"("}})")
          .ok());
}

TEST(Decode, ATextOfAnyLengthIsKeptOnlyInPart) {
  const std::string long_text(1'000'000, 'x');
  const Result<ClaimView> claim = Decoder().Object<ClaimView>(
      R"({"metadata":{"name":"lockstep-jobs"},"spec":{"holderIdentity":")" + long_text + R"("}})");
  ASSERT_TRUE(claim.ok());
  EXPECT_LT(claim->holder.size(), 10'000U);
  const Result<PodView> pod = Decoder().Object<PodView>(
      R"({"metadata":{"name":"a","ownerReferences":[{"controller":true,"uid":")" + long_text +
      R"("}]},"status":{"message":")" + long_text + R"("}})");
  ASSERT_TRUE(pod.ok());
  EXPECT_EQ(pod->meta.owner_uid, "");
  EXPECT_LT(pod->message.size(), 10'000U);
}

}  // namespace
}  // namespace lockstep::kube
