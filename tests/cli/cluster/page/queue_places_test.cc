#include "cli/cluster/page/queue_places.h"

#include <gtest/gtest.h>

namespace lockstep::cli::queue_places_test {
namespace {

TEST(ReadPlacesTest, CountsFromOneAndPassesOverWhatIsNoPlace) {
  const auto places = ReadPlaces(R"({"items": [
    {"metadata": {"name": "first"}, "positionInLocalQueue": 0, "positionInClusterQueue": 3},
    {"metadata": {"name": "second"}, "positionInLocalQueue": 1},
    {"metadata": {"name": "none"}}, {"metadata": {"name": 7}, "positionInLocalQueue": 2},
    {"metadata": {"name": "text"}, "positionInLocalQueue": "2"}, {"metadata": []}, 5]})");
  EXPECT_EQ(places, (std::map<std::string, QueuePlace>{{"first", {1, 4}}, {"second", {2, 0}}}));
  EXPECT_TRUE(ReadPlaces("").empty());
  EXPECT_TRUE(ReadPlaces(R"({"items": {}})").empty());
}

StoredJob Queued() {
  StoredJob job;
  job.meta.name_space = "team-a";
  job.job.metadata.labels = {{"kueue.x-k8s.io/queue-name", "lq"}};
  job.status.state = core::JobState::kQueued;
  job.status.queue = core::QueueStatus{.workload = "gpt-1"};
  return job;
}

TEST(WaitsInQueueTest, OnlyAJobThatIsQueuedByItsWorkload) {
  const std::optional<QueuedJob> waits = WaitsInQueue(Queued());
  ASSERT_TRUE(waits);
  EXPECT_EQ(waits->queue, (LocalQueue{"team-a", "lq"}));
  EXPECT_EQ(waits->workload, "gpt-1");
  StoredJob job = Queued();
  job.status.state = core::JobState::kRunning;
  EXPECT_FALSE(WaitsInQueue(job));
  job = Queued();
  job.status.queue.reset();
  EXPECT_FALSE(WaitsInQueue(job));
  job = Queued();
  job.job.metadata.labels.clear();
  EXPECT_FALSE(WaitsInQueue(job));
}

}  // namespace
}  // namespace lockstep::cli::queue_places_test
