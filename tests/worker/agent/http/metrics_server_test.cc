#include "worker/agent/http/metrics_server.h"

#include "tests/base/loop_test_base.h"

namespace lockstep::agent {
namespace {

struct Part : prometheus::Collectable {
  std::vector<prometheus::MetricFamily> Collect() const override {
    return Families().Gauge("lockstep_part", "A part.", 7).Take();
  }
};

class MetricsServerTest : public LoopTest {
 protected:
  Part part_;
  bool ready_ = false;
  MetricsServer server_{loop(), {{"trainingjob", "gpt"}}, {&part_}, [this] { return ready_; }};
};

TEST_F(MetricsServerTest, AScrapeShowsThePartsWithTheLabelsOfAll) {
  const HttpResponse page = server_.Answer("/metrics");
  EXPECT_EQ(page.content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(page.body,
            "# HELP lockstep_part A part.\n# TYPE lockstep_part gauge\n"
            "lockstep_part{trainingjob=\"gpt\"} 7\n");
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
