#include "cli/machine/machine_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/topology/machine_builder.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using topology::Machine;
using topology::MakeMachine;

// Two packages of a node each, of four cores with SMT, with a switch of a GPU and a network card on
// the second.
Machine TwoPackages() {
  Machine machine =
      MakeMachine().Smt(2).Node(0, 4).Node(1, 4).Gpu(0).Gpu(1).Distances({{10, 21}, {21, 10}});
  for (size_t i = 0; i < 2; ++i) {
    topology::NumaNode& node = machine.numa_nodes[i];
    node.package = static_cast<int>(i);
    node.memory_bytes = int64_t{64} << 30;
    machine.packages.push_back({static_cast<int>(i), node.cpus});
    machine.caches.push_back({node.cpus, int64_t{32} << 20, 3});
  }
  machine.nics.push_back({.name = "mlx5_0",
                          .interface = "ib0",
                          .rdma = true,
                          .up = true,
                          .numa_node = 1,
                          .pci_address = "0000:17:00.0",
                          .pci_path = ""});
  machine.switches.push_back({.pci_path = "pci0000:16/0000:16:01.0", .gpus = {1}, .nics = {0}});
  return machine;
}

TEST(MachinePictureTest, EverythingStandsInsideWhatItBelongsTo) {
  EXPECT_THAT(PictureText(MakePicture(TwoPackages(), nullptr)),
              HasSubstr("├─ package 0\n"
                        "│  └─ NUMA node 0  64 GiB  CPUs 0-7  distances 10 21\n"
                        "│     ├─ L3  32 MiB\n"
                        "│     │  └─ [0-1][2-3][4-5][6-7]\n"
                        "│     └─ GPU 0  NVIDIA  0000:10:00.0\n"
                        "└─ package 1\n"
                        "   └─ NUMA node 1  64 GiB  CPUs 8-15  distances 21 10\n"
                        "      ├─ L3  32 MiB\n"
                        "      │  └─ [8-9][10-11][12-13][14-15]\n"
                        "      └─ PCIe switch 0000:16:01.0\n"
                        "         ├─ GPU 1  NVIDIA  0000:11:00.0\n"
                        "         └─ network card mlx5_0 (ib0)  RDMA  0000:17:00.0\n"));
}

TEST(MachinePictureTest, CoresAndMemoryThatMayNotBeUsedLookDifferent) {
  Machine machine = TwoPackages();
  machine.allowed_cpus = {0, 1, 2};
  machine.allowed_mems = {0};
  const Part picture = MakePicture(machine, nullptr);
  EXPECT_THAT(PictureText(picture), HasSubstr("[0-1](2-3)(4-5)(6-7)"));
  EXPECT_THAT(PictureText(picture), HasSubstr("CPUs 8-15  memory not allowed"));
  EXPECT_THAT(PictureSvg(picture), HasSubstr("fill=\"#eeeeee\""));
}

TEST(MachinePictureTest, APlanShowsWhoIsWhere) {
  topology::BindingPlan plan;
  plan.ranks.resize(2);
  plan.ranks[0].cpus = {0, 1, 2, 3};
  plan.ranks[1].local_rank = 1;
  plan.ranks[1].cpus = {2, 3, 8, 9};
  plan.ranks[1].gpus = {1};
  const Part picture = MakePicture(TwoPackages(), &plan);
  EXPECT_THAT(PictureText(picture), HasSubstr("[0-1:r0][2-3:r0+][4-5][6-7]"));
  EXPECT_THAT(PictureText(picture), HasSubstr("[8-9:r1][10-11]"));
  EXPECT_THAT(PictureText(picture), HasSubstr("GPU 1  NVIDIA  0000:11:00.0  r1"));
  EXPECT_THAT(PictureSvg(picture), HasSubstr(">0-1:r0<"));
}

TEST(MachinePictureTest, NothingIsLostOfAMachineThatHidesItself) {
  EXPECT_THAT(PictureText(MakePicture(topology::WithoutTopology("a test"), nullptr)),
              HasSubstr("[0]"));
  Machine machine = MakeMachine().Node(0, 2).Gpu(-1).Gpu(7);
  machine.memory_nodes.push_back({.id = 2, .cpus = {}, .distances = {}, .memory_bytes = 1 << 20});
  const std::string text = PictureText(MakePicture(machine, nullptr));
  EXPECT_THAT(text, AllOf(HasSubstr("\n├─ NUMA node 0  CPUs 0-1\n"),
                          HasSubstr("NUMA node 2  1.0 MiB  memory not allowed, no CPUs")));
  EXPECT_THAT(text, AllOf(HasSubstr("GPU 0  NVIDIA  0000:10:00.0  its node is unknown"),
                          HasSubstr("GPU 1  NVIDIA  0000:11:00.0  its node is unknown")));
}

TEST(MachinePictureTest, NamesOfAnotherMachinesFileSteerNeitherTerminalNorPicture) {
  Machine machine = TwoPackages();
  machine.nics[0].name = "\x1b[2J<script>\n";
  const Part picture = MakePicture(machine, nullptr);
  EXPECT_THAT(PictureText(picture), Not(HasSubstr("\x1b")));
  EXPECT_THAT(PictureSvg(picture), AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("<script>"))));
}

TEST(MachinePictureTest, ManyCoresAreBrokenIntoLines) {
  const std::string text = PictureText(MakePicture(MakeMachine().Node(0, 128), nullptr));
  EXPECT_THAT(text, HasSubstr("[127]"));
  for (size_t line = 0; line < text.size(); line = text.find('\n', line) + 1) {
    EXPECT_LE(text.find('\n', line) - line, 104U);
  }
}

}  // namespace
}  // namespace lockstep::cli
