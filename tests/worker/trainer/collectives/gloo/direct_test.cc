// The direct algorithms with every size of chunk: many rows, last ones that are short, slices that
// are empty.
#include "worker/trainer/collectives/gloo/direct.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/worker/trainer/collectives/ranks.h"
#include "worker/trainer/collectives/gloo/gloo_mesh.h"
#include "worker/trainer/collectives/store/no_sigpipe.h"
#include "worker/trainer/collectives/store/store_client.h"
#include "worker/trainer/collectives/store/store_server.h"

namespace lockstep::collectives {
namespace {

// Calls `body` on each rank of a mesh.
void OnMesh(int world, const std::function<void(GlooMesh&)>& body) {
  const Options options = TestOptions(world);
  const Time deadline = BootTime() + seconds(60);
  auto server = StoreServer::Start({.address = options.master_address,
                                    .port = options.master_port,
                                    .world = world,
                                    .identity = options.identity,
                                    .deadline = deadline});
  ASSERT_TRUE(server.ok());
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(world));
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      const NoSigpipe none;
      auto store = StoreClient::Connect({.address = options.master_address,
                                         .port = options.master_port,
                                         .rank = rank,
                                         .world = world,
                                         .identity = options.identity,
                                         .deadline = deadline});
      ASSERT_TRUE(store.ok()) << store.error().message;
      Options mine = options;
      mine.rank = rank;
      auto mesh = GlooMesh::Connect(mine, **store, deadline);
      ASSERT_TRUE(mesh.ok()) << mesh.error().message;
      Direct(mesh->get(), {})
          .Barrier({.kind = OperationKind::kBarrier, .in = {}, .out = {}, .deadline = deadline});
      body(**mesh);
      (*store)->Bye();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Operation AllReduceOf(std::vector<int64_t>* values, uint64_t number) {
  const Span all{values->data(), values->size(), DataType::kInt64};
  return {.kind = OperationKind::kAllReduce,
          .number = number,
          .in = all,
          .out = all,
          .deadline = BootTime() + seconds(60)};
}

class DirectTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, DirectTest, testing::Values(2, 3, 5, 8));

TEST_P(DirectTest, AnAllreduceIsRightWhateverItsChunks) {
  OnMesh(GetParam(), [](GlooMesh& mesh) {
    uint64_t number = 0;
    for (const size_t chunk : {size_t{64}, size_t{1024}, size_t{1} << 20}) {
      Direct direct(&mesh, {.whole = 0, .chunk = chunk, .small_broadcast = 0});
      for (const size_t count : {1u, 9u, 257u, 4099u}) {
        std::vector<int64_t> values(count);
        std::vector<int64_t> want(count);
        for (size_t i = 0; i < count; ++i) {
          values[i] = static_cast<int64_t>(i) + mesh.rank;
          want[i] = static_cast<int64_t>(i) * mesh.size + mesh.size * (mesh.size - 1) / 2;
        }
        direct.AllReduce(AllReduceOf(&values, ++number));
        EXPECT_EQ(values, want) << "chunks of " << chunk;
      }
    }
  });
}

TEST_P(DirectTest, AnAbortEndsAWaitThatNobodyWouldEnd) {
  OnMesh(GetParam(), [](GlooMesh& mesh) {
    Direct direct(&mesh, {});
    std::vector<int64_t> values(100'000);
    // Rank 0 does not take part.
    std::thread aborter([&] { mesh.abort_switch().Abort(); });
    if (mesh.rank != 0) {
      EXPECT_ANY_THROW(direct.AllReduce(AllReduceOf(&values, 1)));
    }
    aborter.join();
    EXPECT_ANY_THROW(direct.AllReduce(AllReduceOf(&values, 2)));
  });
}

}  // namespace
}  // namespace lockstep::collectives
