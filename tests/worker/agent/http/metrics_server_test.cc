#include "worker/agent/http/metrics_server.h"

#include "tests/base/loop_test_base.h"

namespace lockstep::agent {
namespace {

struct Part : prometheus::Collectable {
  std::vector<prometheus::MetricFamily> Collect() const override {
    now += milliseconds(5);
    return Families().Gauge("lockstep_part", "A part.", value).Take();
  }
  mutable Time now = seconds(1);
  int value = 7;
};

class MetricsServerTest : public LoopTest {
 protected:
  Part part_;
  bool ready_ = false;
  MetricsServer server_{loop(),
                        {{"trainingjob", "gpt"}},
                        {&part_},
                        [this] { return ready_; },
                        [this] { return part_.now; }};
};

TEST_F(MetricsServerTest, AScrapeShowsThePartsWithTheLabelsOfAll) {
  const HttpResponse page = server_.Answer("/metrics");
  EXPECT_EQ(page.content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(page.body,
            "# HELP lockstep_part A part.\n# TYPE lockstep_part gauge\n"
            "lockstep_part{trainingjob=\"gpt\"} 7\n");
}

TEST_F(MetricsServerTest, WhoAsksWithinTenTimesWhatAPageTookGetsTheSamePage) {
  const std::string first = server_.Answer("/metrics").body;
  part_.value = 8;
  part_.now += milliseconds(44);
  EXPECT_EQ(server_.Answer("/metrics").body, first);
  part_.now += milliseconds(1);
  EXPECT_NE(server_.Answer("/metrics").body, first);
}

TEST_F(MetricsServerTest, ItIsAliveAtOnceAndReadyWhenItIs) {
  EXPECT_EQ(server_.Answer("/healthz").status, 200);
  EXPECT_EQ(server_.Answer("/readyz").status, 503);
  ready_ = true;
  EXPECT_EQ(server_.Answer("/readyz").status, 200);
  EXPECT_EQ(server_.Answer("/").status, 404);
}

}  // namespace
}  // namespace lockstep::agent
