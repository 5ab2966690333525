// What the fake NCCL keeps of the real one's rules: groups, and sums whose order nobody promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "worker/trainer/collectives/nccl/nccl_comm.h"

namespace lockstep::collectives {
namespace {

using nccl::Type;
using ::testing::HasSubstr;

// A communicator of all ranks, and a stream.
class Comm {
 public:
  explicit Comm(Rank& rank)
      : library_(*NcclLibrary::Load()),
        stream_(std::move(*CudaStream::Create(rank.device()))),
        comm_(library_, rank.device(), seconds(15)) {
    nccl::UniqueId id{};
    if (rank.rank() == 0) {
      EXPECT_EQ(library_->api().get_unique_id(&id), nccl::Code::kSuccess);
      Rank::Must(rank.rendezvous().Set("id", std::string(id.bytes, sizeof(id.bytes))));
    }
    const Result<std::string> text = rank.rendezvous().Get("id", In(seconds(60)));
    text->copy(id.bytes, sizeof(id.bytes));
    Rank::Must(comm_.Init(rank.world(), id, rank.rank(), In(seconds(60))));
  }

  cuda::Stream stream() const { return stream_.get(); }
  NcclComm& comm() { return comm_; }
  Status Call(const std::function<nccl::Code(const nccl::Api&, nccl::Comm)>& calls) {
    return comm_.Call("the call", In(seconds(60)), calls);
  }
  Status Group(const std::function<void(const nccl::Api&, nccl::Comm)>& calls) {
    return Call([&](const nccl::Api& api, nccl::Comm comm) {
      api.group_start();
      calls(api, comm);
      return api.group_end();
    });
  }
  void Wait() const { Rank::Must(stream_.Synchronize()); }

 private:
  std::shared_ptr<const NcclLibrary> library_;
  CudaStream stream_;
  NcclComm comm_;
};

class NcclGroupWorlds : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of, NcclGroupWorlds, ::testing::Values(1, 2, 3));

TEST_P(NcclGroupWorlds, SendsAndReceivesOfAGroupRunAtTheSameTime) {
  RunRanks(GetParam(), [](Rank& rank) {
    Comm comm(rank);
    const auto world = static_cast<size_t>(rank.world());
    // More than one of the fake's chunks, and two messages for every rank, oneself too.
    const size_t count = 10'001;
    std::vector<int64_t> values(2 * world * count);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<int64_t>(i / count * 100) + rank.rank();
    const DeviceMemory out = rank.ToDevice(values);
    const DeviceMemory in = rank.Allocate(out.size());
    const auto at = [&](const DeviceMemory& memory, size_t i) {
      return static_cast<int64_t*>(memory.data()) + i * count;
    };
    Rank::Must(comm.Group([&](const nccl::Api& api, nccl::Comm all) {
      for (size_t i = 0; i < 2 * world; ++i) {
        const auto peer = static_cast<int>(i / 2);
        api.send(at(out, i), count, Type::kInt64, peer, all, comm.stream());
        api.receive(at(in, i), count, Type::kInt64, peer, all, comm.stream());
      }
    }));
    comm.Wait();
    const auto heard = rank.ToHost<int64_t>(in);
    for (size_t i = 0; i < heard.size(); ++i) {
      const size_t peer = i / count / 2;
      const size_t message = 2 * static_cast<size_t>(rank.rank()) + i / count % 2;
      ASSERT_EQ(heard[i], static_cast<int64_t>(100 * message + peer)) << i;
    }
  });
}

TEST(NcclGroup, OutsideAGroupNeighboursThatBothSendFirstWaitForEachOther) {
  RunRanks(2, [](Rank& rank) {
    const DeviceMemory memory = rank.ToDevice<float>({1, 2});
    const auto nccl = rank.Connect();
    Operation send;
    send.kind = OperationKind::kSend;
    send.in = {memory.data(), 1, DataType::kFloat32};
    send.peer = 1 - rank.rank();
    send.deadline = In(milliseconds(300));
    Operation receive = send;
    receive.kind = OperationKind::kReceive;
    receive.out = {memory.data(), 1, DataType::kFloat32};
    Rank::Must(nccl->Start(send));
    Rank::Must(nccl->Start(receive));
    const Status done = FinishOne(*nccl);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().kind, ErrorKind::kTimeout);
  });
}

TEST(NcclGroup, ASendToOneselfWantsItsReceiveInTheSameGroup) {
  RunRanks(1, [](Rank& rank) {
    Comm comm(rank);
    const DeviceMemory memory = rank.ToDevice<float>({1});
    const Status sent = comm.Call([&](const nccl::Api& api, nccl::Comm all) {
      return api.send(memory.data(), 1, Type::kFloat32, 0, all, comm.stream());
    });
    ASSERT_FALSE(sent.ok());
    EXPECT_THAT(sent.error().message, HasSubstr("without its receive"));
  });
}

TEST(NcclGroup, OneBadCallKeepsItsWholeGroupFromRunning) {
  RunRanks(1, [](Rank& rank) {
    Comm comm(rank);
    const DeviceMemory memory = rank.ToDevice<float>({1, 2});
    auto* floats = static_cast<float*>(memory.data());
    float host = 0;
    const Status done = comm.Group([&](const nccl::Api& api, nccl::Comm all) {
      api.broadcast(floats, floats + 1, 1, Type::kFloat32, 0, all, comm.stream());
      api.broadcast(&host, floats, 1, Type::kFloat32, 0, all, comm.stream());
    });
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(rank.ToHost<float>(memory), ::testing::ElementsAre(1, 2));
  });
}

// Values whose sums depend on the order of addition.
std::vector<float> Rough(size_t count, int rank) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = 1.0F / (1.0F + static_cast<float>((i * 7 + static_cast<size_t>(rank) * 13) % 101));
  return values;
}

// The sums of `count` elements, added up by `calls` calls for as many equal parts.
std::vector<float> SumsBy(Rank& rank, Comm& comm, size_t count, size_t calls) {
  const DeviceMemory memory = rank.ToDevice(Rough(count, rank.rank()));
  const size_t part = count / calls;
  for (size_t i = 0; i < calls; ++i) {
    float* const at = static_cast<float*>(memory.data()) + i * part;
    Rank::Must(comm.Call([&](const nccl::Api& api, nccl::Comm all) {
      return api.all_reduce(at, at, part, Type::kFloat32, nccl::Op::kSum, all, comm.stream());
    }));
  }
  comm.Wait();
  return rank.ToHost<float>(memory);
}

TEST(NcclSums, OfTheRingDependOnTheSizeOfACall) {
  RunRanks(4, [](Rank& rank) {
    Rank::Set("FAKE_SUMS", "ring");
    Comm comm(rank);
    const auto whole = SumsBy(rank, comm, 1000, 1);
    EXPECT_EQ(SumsBy(rank, comm, 1000, 1), whole);
    EXPECT_NE(SumsBy(rank, comm, 1000, 2), whole);
  });
}

TEST(NcclSums, OfNvlsDifferFromCallToCall) {
  RunRanks(4, [](Rank& rank) {
    Rank::Set("FAKE_SUMS", "nvls");
    Comm comm(rank);
    EXPECT_NE(SumsBy(rank, comm, 1000, 1), SumsBy(rank, comm, 1000, 1));
  });
}

}  // namespace
}  // namespace lockstep::collectives
