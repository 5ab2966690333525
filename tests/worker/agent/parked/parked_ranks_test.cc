// Real interpreters, of /usr/bin/python3, held by the hook that the agent brings along.
#include "worker/agent/parked/parked_ranks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "tests/worker/agent/processes/process_test_base.h"
#include "tests/worker/topology/fixture_tree.h"
#include "worker/agent/processes/descendants.h"
#include "worker/topology/small_file.h"

namespace lockstep::agent {
namespace {

using ::testing::HasSubstr;

class ParkedRanksTest : public ProcessTest {
 protected:
  ParkedRanksTest() { Make(core::Prestart::kAuto); }

  void Make(core::Prestart prestart, Duration patience = Duration(0)) {
    parked_ =
        std::make_unique<ParkedRanks>(loop(), spawner_.get(), &processes_,
                                      ParkedRanks::Options{.prestart = prestart,
                                                           .exclude = {},
                                                           .folder = tree_.root() + "/prestart",
                                                           .patience = patience,
                                                           .root = computer_.root(),
                                                           .on_change = [this] { ++changes_; }},
                                      [this](const std::string& line) { log_ += line + "\n"; });
  }

  // A child that is left would be the next test's.
  void TearDown() override {
    parked_->Close();
    for (const pid_t child : ChildrenOf(getpid())) kill(child, SIGKILL);
    EXPECT_TRUE(WaitGone());
  }

  // Writes a line with what it was told, wherever it is run.
  SpawnRequest Rank(const std::string& port) const {
    return {.path = "/usr/bin/python3",
            .argv = {"python3", "-c",
                     "import os, fractions; open('told', 'a').write(os.environ.get('MASTER_PORT', "
                     "'nothing') + ' ' + os.environ.get('PYTHONPATH', '-') + '\\n')"},
            .env = {"PATH=/usr/bin:/bin", "RANK=0", "MASTER_PORT=" + port},
            .working_directory = tree_.root()};
  }
  // A generation that starts cold, and what follows it.
  void StartCold(const SpawnRequest& request) {
    parked_->BeginGeneration();
    EXPECT_FALSE(parked_->Take(0, request).has_value());
    parked_->OnStarted(/*warm=*/false);
  }
  // And the probe before it is gone.
  bool WaitReady() {
    return RunUntil([&] { return parked_->ready() == 1 && ChildrenOf(getpid()).size() == 1; });
  }
  testing::AssertionResult WaitGone() {
    if (RunUntil([&] { return ChildrenOf(getpid()).empty(); })) return testing::AssertionSuccess();
    testing::AssertionResult there = testing::AssertionFailure();
    for (const pid_t child : ChildrenOf(getpid())) there << DescribeProcess(child) << " ";
    return there << "is still there; " << log_;
  }
  std::string Hook() const {
    return std::filesystem::path(tree_.root() + "/prestart").lexically_normal();
  }
  std::string Told() const {
    Result<std::string> text = ReadFile(tree_.root() + "/told", 4096);
    return text.ok() ? *text : "";
  }

  // In MiB.
  void SetMemory(uint64_t used, uint64_t limit) {
    computer_.File("proc/self/cgroup", "0::/\n")
        .File("sys/fs/cgroup/memory.current", std::to_string(used << 20) + "\n")
        .File("sys/fs/cgroup/memory.max", std::to_string(limit << 20) + "\n");
  }
  // Of those that this process may run on; its error.
  static int ToFirstCore(pid_t pid) noexcept {
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return errno;
    int first = 0;
    while (!CPU_ISSET(first, &cpus)) ++first;
    CPU_ZERO(&cpus);
    CPU_SET(first, &cpus);
    return sched_setaffinity(pid, sizeof cpus, &cpus) == 0 ? 0 : errno;
  }
  // Or it will be before it goes on: the signal reaches a process once that has got a core.
  static bool IsStopped(pid_t pid) {
    const std::string text =
        topology::ReadSmallFile("/proc/" + std::to_string(pid) + "/status").value_or("");
    const std::string pending = topology::StatusField(text, "ShdPnd").value_or("0");
    return topology::StatusField(text, "State").value_or("").starts_with("T") ||
           (std::stoull(pending, nullptr, 16) & (uint64_t{1} << (SIGSTOP - 1))) != 0;
  }

  topology::FixtureTree tree_;
  topology::FixtureTree computer_;  // whose memory is as a test says
  std::string log_;
  int changes_ = 0;
  std::unique_ptr<ParkedRanks> parked_;
};

TEST_F(ParkedRanksTest, AReadyInterpreterBecomesTheRankAndIsToldOfItsGenerationAlone) {
  StartCold(Rank("1"));
  ASSERT_TRUE(WaitReady()) << log_;
  EXPECT_EQ(Told(), "");
  parked_->BeginGeneration();
  const auto score = [](const std::string& pid) {
    return topology::ReadSmallFile("/proc/" + pid + "/oom_score_adj").value_or("");
  };
  ASSERT_EQ(ChildrenOf(getpid()).size(), 1U);
  EXPECT_EQ(score(std::to_string(ChildrenOf(getpid())[0])), "1000");
  std::optional<ParkedRanks::Interpreter> taken = parked_->Take(0, Rank("2"));
  ASSERT_TRUE(taken.has_value()) << log_;
  EXPECT_EQ(score(std::to_string(taken->process.pid)), score("self"));
  ASSERT_TRUE(processes_.Add(0, taken->process.pid, std::move(taken->process.pidfd)).ok());
  EXPECT_TRUE(taken->Go());
  parked_->OnStarted(/*warm=*/true);
  ASSERT_TRUE(RunUntil([&] { return deaths_.size() == 1; }));
  EXPECT_EQ(deaths_[0].exit_code, 0);
  EXPECT_EQ(Told(), "2 -\n");
}

TEST_F(ParkedRanksTest,
       ParkedInterpretersAreMadeWhenRanksHaveRunForAsLongAsTheyTookToTheirFirstStep) {
  Make(core::Prestart::kAuto, minutes(1));
  StartCold(Rank("1"));
  const Time began = BootTime();
  bool over = false;
  loop()->StartTimer(began + milliseconds(300), [&] { over = true; });
  ASSERT_TRUE(RunUntil([&] { return over; }));
  ExpectAllGone();
  const Time step = BootTime();
  parked_->OnStep();
  loop()->StartTimer(step + milliseconds(200), [&] { parked_->OnStep(); });
  ASSERT_TRUE(RunUntil([&] { return !ChildrenOf(getpid()).empty(); }));
  EXPECT_GE(BootTime() - step, step - began);
  EXPECT_TRUE(WaitReady()) << log_;
}

TEST_F(ParkedRanksTest, AlwaysMakesThemAtTheFirstStep) {
  Make(core::Prestart::kAlways, minutes(1));
  StartCold(Rank("1"));
  parked_->OnStep();
  EXPECT_TRUE(WaitReady()) << log_;
}

TEST_F(ParkedRanksTest, AParkedInterpreterThatIsNotWhatTheRankIsToBeIsKilled) {
  StartCold(Rank("1"));
  ASSERT_TRUE(WaitReady()) << log_;
  SpawnRequest other = Rank("2");
  other.env.emplace_back("OMP_NUM_THREADS=2");
  parked_->BeginGeneration();
  EXPECT_FALSE(parked_->Take(0, other).has_value());
  EXPECT_THAT(log_, HasSubstr("differs from the rank to start"));
  EXPECT_TRUE(WaitGone());
  EXPECT_EQ(Told(), "");
}

TEST_F(ParkedRanksTest, AParkedInterpreterInAFolderWhoseLinkWasSwitchedIsKilled) {
  for (const char* name : {"/v1", "/v2"}) std::filesystem::create_directory(tree_.root() + name);
  const std::string link = tree_.root() + "/current";
  std::filesystem::create_symlink("v1", link);
  SpawnRequest request = Rank("1");
  request.working_directory = link;
  StartCold(request);
  ASSERT_TRUE(WaitReady()) << log_;
  std::filesystem::remove(link);
  std::filesystem::create_symlink("v2", link);
  parked_->BeginGeneration();
  EXPECT_FALSE(parked_->Take(0, request).has_value());
  EXPECT_THAT(log_, HasSubstr("differs from the rank to start"));
  EXPECT_TRUE(WaitGone());
}

TEST_F(ParkedRanksTest, AParkedInterpreterInAFolderThatWasReplacedIsKilled) {
  std::filesystem::create_directory(tree_.root() + "/work");
  SpawnRequest request = Rank("1");
  request.working_directory = tree_.root() + "/work";
  StartCold(request);
  ASSERT_TRUE(WaitReady()) << log_;
  std::filesystem::rename(request.working_directory, tree_.root() + "/old");
  std::filesystem::create_directory(tree_.root() + "/work");
  parked_->BeginGeneration();
  EXPECT_FALSE(parked_->Take(0, request).has_value());
  EXPECT_TRUE(WaitGone());
}

TEST_F(ParkedRanksTest, AParkedInterpreterOfAScriptWhoseFirstLineNamesOtherOptionsIsKilled) {
  SpawnRequest request = Rank("1");
  request.path = tree_.root() + "/train.py";
  request.argv = {"train.py"};
  tree_.File("train.py", "#!/usr/bin/python3\n");
  std::filesystem::permissions(request.path, std::filesystem::perms::owner_all);
  StartCold(request);
  ASSERT_TRUE(WaitReady()) << log_;
  tree_.File("train.py", "#!/usr/bin/python3 -O\n");
  parked_->BeginGeneration();
  EXPECT_FALSE(parked_->Take(0, request).has_value());
  EXPECT_TRUE(WaitGone());
}

TEST_F(ParkedRanksTest, ACommandLineThatEachGenerationChangesHasNothingParked) {
  StartCold(Rank("1"));
  ASSERT_TRUE(WaitReady()) << log_;
  SpawnRequest other = Rank("2");
  other.argv.emplace_back("--port=2");
  parked_->BeginGeneration();
  EXPECT_FALSE(parked_->Take(0, other).has_value());
  parked_->OnStarted(/*warm=*/false);
  EXPECT_THAT(parked_->why_not(), HasSubstr("the command line"));
  EXPECT_TRUE(WaitGone());
}

TEST_F(ParkedRanksTest, AParkedInterpreterKilledBetweenReadyAndGoIsNotTaken) {
  StartCold(Rank("1"));
  ASSERT_TRUE(WaitReady()) << log_;
  const std::vector<pid_t> children = ChildrenOf(getpid());
  siginfo_t info{};
  for (const pid_t child : children) {
    kill(child, SIGKILL);
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  }
  // The loop has not heard of it.
  parked_->BeginGeneration();
  EXPECT_FALSE(parked_->Take(0, Rank("2")).has_value());
  EXPECT_THAT(log_, HasSubstr("is dead"));
  EXPECT_TRUE(WaitGone());
}

TEST_F(ParkedRanksTest, TheDeathOfAParkedInterpreterIsToldAndHasNoSuccessorInItsGeneration) {
  StartCold(Rank("1"));
  ASSERT_TRUE(WaitReady()) << log_;
  for (const pid_t child : ChildrenOf(getpid())) kill(child, SIGKILL);
  ASSERT_TRUE(RunUntil([&] { return parked_->ready() == 0; }));
  EXPECT_THAT(parked_->why_not(), HasSubstr("the parked interpreter of local rank 0"));
  EXPECT_TRUE(WaitGone());
  StartCold(Rank("2"));
  EXPECT_TRUE(WaitReady()) << log_;
}

TEST_F(ParkedRanksTest, AParkedInterpreterThatIsNotReadyIsKilledWhenAGenerationBegins) {
  tree_.File("prestart/imports.0", "fractions\n");
  StartCold(Rank("1"));
  // The probe has ended, and the parked interpreter is there.
  ASSERT_TRUE(RunUntil([&] {
    const std::vector<pid_t> children = ChildrenOf(getpid());
    return parked_->ready() == 1 || children.size() == 1;
  }));
  parked_->BeginGeneration();
  const bool was_ready = parked_->ready() == 1;
  EXPECT_EQ(parked_->Take(0, Rank("2")).has_value(), was_ready);
  parked_->Close();
  for (const pid_t child : ChildrenOf(getpid())) kill(child, SIGKILL);  // one that was taken
  EXPECT_TRUE(WaitGone());
  EXPECT_EQ(Told(), "");
}

TEST_F(ParkedRanksTest, ARankWhoseInterpreterFailsLeavesTheOthersTheirs) {
  tree_.File("prestart/imports.0/no_file", "");  // its list cannot be read
  parked_->BeginGeneration();
  for (const size_t local_rank : {0UL, 1UL, 2UL}) {
    EXPECT_FALSE(parked_->Take(local_rank, Rank("1")).has_value());
  }
  parked_->OnStarted(/*warm=*/false);
  ASSERT_TRUE(RunUntil([&] { return parked_->ready() == 2; })) << log_;
  EXPECT_THAT(parked_->told().why_not, HasSubstr("the parked interpreter of local rank 0"));
  EXPECT_THAT(log_, HasSubstr("2 of 3 parked interpreters are ready"));
  parked_->BeginGeneration();
  EXPECT_FALSE(parked_->Take(0, Rank("2")).has_value());
  EXPECT_TRUE(parked_->Take(1, Rank("2")).has_value());
}

TEST_F(ParkedRanksTest, AParkedInterpreterOfARankThatLivesOnServesALaterGeneration) {
  parked_->BeginGeneration();
  for (const size_t local_rank : {0UL, 1UL}) {
    EXPECT_FALSE(parked_->Take(local_rank, Rank("1")).has_value());
  }
  parked_->OnStarted(/*warm=*/false);
  ASSERT_TRUE(RunUntil([&] { return parked_->ready() == 2; })) << log_;
  parked_->BeginGeneration();
  EXPECT_TRUE(parked_->Take(0, Rank("2")).has_value()) << "rank 1 lives on";
  parked_->OnStarted(/*warm=*/true);
  EXPECT_EQ(parked_->ready(), 1U);
  ASSERT_TRUE(RunUntil([&] { return parked_->ready() == 2; })) << log_;
  parked_->BeginGeneration();
  std::optional<ParkedRanks::Interpreter> taken = parked_->Take(1, Rank("3"));
  ASSERT_TRUE(taken.has_value()) << log_;
  EXPECT_THAT(taken->message, HasSubstr("\"MASTER_PORT\":\"3\""));
}

TEST_F(ParkedRanksTest, WhatIsToldChangesWithTheParkedInterpreters) {
  StartCold(Rank("1"));
  EXPECT_EQ(parked_->told().why_not, "waiting for the first step");
  ASSERT_TRUE(WaitReady()) << log_;
  EXPECT_EQ(changes_, 1);
  EXPECT_EQ(parked_->told(), (core::Parked{.ready = 1, .why_not = "", .saved = {}}));
  parked_->BeginGeneration();
  EXPECT_TRUE(parked_->Take(0, Rank("2")).has_value());
  parked_->OnStarted(/*warm=*/true);
  EXPECT_EQ(parked_->told().ready, 0U);
  EXPECT_GT(parked_->told().saved, Duration(0));
}

TEST_F(ParkedRanksTest, WithoutRoomForAParkedInterpreterThereIsNoneUnlessAlwaysIsAsked) {
  SetMemory(600, 1000);
  StartCold(Rank("1"));
  ASSERT_TRUE(RunUntil([&] { return changes_ > 0; }));
  EXPECT_EQ(parked_->why_not(),
            "a parked interpreter needs 512 MiB, and 400 of 1000 MiB are free of the memory limit");
  ExpectAllGone();
  Make(core::Prestart::kAlways);
  StartCold(Rank("1"));
  EXPECT_TRUE(WaitReady()) << log_;
}

TEST_F(ParkedRanksTest, ParkedInterpretersGoWhenMemoryBecomesShortAndComeBackInALaterGeneration) {
  SetMemory(100, 1000);
  StartCold(Rank("1"));
  ASSERT_TRUE(WaitReady()) << log_;
  SetMemory(951, 1000);
  ASSERT_TRUE(RunUntil([&] { return parked_->ready() == 0; }));
  EXPECT_EQ(parked_->told().why_not,
            "memory became short: 49 of 1000 MiB are free of the memory limit");
  EXPECT_TRUE(WaitGone());
  SetMemory(100, 1000);
  StartCold(Rank("2"));
  EXPECT_TRUE(WaitReady()) << log_;
}

TEST_F(ParkedRanksTest, TheComputersOwnMemoryIsALimitToo) {
  computer_.File("proc/meminfo",
                 "MemTotal:        2048000 kB\nMemFree:   1 kB\n"
                 "MemAvailable:     409600 kB\n");
  StartCold(Rank("1"));
  ASSERT_TRUE(RunUntil([&] { return changes_ > 0; }));
  EXPECT_EQ(
      parked_->why_not(),
      "a parked interpreter needs 512 MiB, and 400 of 2000 MiB are free of the computer's memory");
}

// The limit of the pod counts what its other containers use.
TEST_F(ParkedRanksTest, EachLimitAroundTheRanksCountsWhatIsUsedOfIt) {
  SetMemory(100, 1000);
  computer_.File("proc/self/cgroup", "0::/pod/worker\n")
      .File("sys/fs/cgroup/pod/memory.current", std::to_string(uint64_t{900} << 20) + "\n")
      .File("sys/fs/cgroup/pod/memory.max", std::to_string(uint64_t{1000} << 20) + "\n");
  StartCold(Rank("1"));
  ASSERT_TRUE(RunUntil([&] { return changes_ > 0; }));
  EXPECT_THAT(parked_->why_not(), HasSubstr("100 of 1000 MiB are free"));
}

// A rank can fill what is left of a small limit long before a second is over.
TEST_F(ParkedRanksTest, TheLessMemoryIsFreeTheOftenerItIsLookedAt) {
  int late = 0;
  for (int i = 0; i < 8; ++i) {  // once, it might have been looked at just then
    SetMemory(480, 1000);
    StartCold(Rank("1"));
    ASSERT_TRUE(WaitReady()) << log_;
    const Time began = BootTime();
    SetMemory(960, 1000);
    ASSERT_TRUE(RunUntil([&] { return parked_->ready() == 0; }));
    late += BootTime() - began > milliseconds(500);
    EXPECT_TRUE(WaitGone());
  }
  EXPECT_LE(late, 1) << "of 8; the computer may have been busy once";
}

TEST_F(ParkedRanksTest, AParkedInterpreterThatOpensAGpuIsKilledAndTheReasonIsTold) {
  StartCold(Rank("1"));
  ASSERT_TRUE(WaitReady()) << log_;
  const std::string files = computer_.root() + "/proc/" + std::to_string(ChildrenOf(getpid())[0]);
  std::filesystem::create_directories(files + "/fd");
  std::filesystem::create_symlink("/dev/null", files + "/fd/0");
  std::filesystem::create_symlink("/dev/nvidia-uvm", files + "/fd/9");
  ASSERT_TRUE(RunUntil([&] { return parked_->ready() == 0; }));
  EXPECT_EQ(parked_->told().why_not,
            "the parked interpreter of local rank 0: it opened /dev/nvidia-uvm");
  EXPECT_TRUE(WaitGone());
}

// A rank that wants the only core keeps most of it.
TEST_F(ParkedRanksTest, AParkedInterpreterThatTakesARanksCoreIsStoppedMostOfTheTimeUntilItIsReady) {
  std::string imports;
  for (const char* name : {"asyncio", "unittest", "decimal", "xml.dom.minidom", "email.mime.text",
                           "http.server", "sqlite3", "pydoc", "doctest", "tarfile"}) {
    imports += std::string(name) + "\n";
  }
  tree_.File("prestart/imports.0", imports);
  const pid_t rank = Start(0, "while :; do :; done");
  ASSERT_EQ(ToFirstCore(rank), 0);
  SpawnRequest request = Rank("1");
  request.hook = [](void*) noexcept { return ToFirstCore(0); };
  request.hook_name = "binding";
  StartCold(request);
  int stopped = 0;
  EXPECT_TRUE(RunUntil([&] {
    for (const pid_t child : ChildrenOf(getpid())) {
      if (child != rank && IsStopped(child)) ++stopped;
    }
    loop()->StartTimer(BootTime() + milliseconds(5), [] {});  // and look again
    return parked_->ready() == 1;
  })) << log_;
  EXPECT_GT(stopped, 0);
  for (const pid_t child : ChildrenOf(getpid())) EXPECT_FALSE(IsStopped(child));
  processes_.Stop(BootTime());
}

// What changes the process when it is imported makes the parked interpreter begin anew.
TEST_F(ParkedRanksTest, AParkedInterpreterThatStartsOverIsHeldAgain) {
  tree_.File("prestart/imports.0", "unittest.__main__\n");  // ends in sys.exit()
  StartCold(Rank("1"));
  EXPECT_TRUE(WaitReady()) << log_;
  EXPECT_THAT(*ReadFile(tree_.root() + "/prestart/imports.0", 4096), HasSubstr("exclude unittest"));
  EXPECT_THAT(log_, HasSubstr("prestart: local rank 0: left to the program: unittest.__main__ "
                              "raises SystemExit when it is imported"));
  EXPECT_EQ(Told(), "");
}

TEST_F(ParkedRanksTest, AParkedInterpreterThatPrintsWithoutEndIsKilledAndTheLoopGoesOn) {
  StartCold(Rank("1"));
  ASSERT_TRUE(WaitReady()) << log_;
  for (const pid_t child : ChildrenOf(getpid())) {
    const UniqueFd out(
        open(("/proc/" + std::to_string(child) + "/fd/1").c_str(), O_WRONLY | O_NONBLOCK));
    ASSERT_TRUE(out.valid());
    // As a thread that its imports have left behind would.
    const std::string text(size_t{32} << 10, '\n');
    EXPECT_TRUE(RunUntil([&] {
      return parked_->ready() == 0 || write(out.get(), text.data(), text.size()) > (1 << 30);
    }));
  }
  EXPECT_THAT(parked_->why_not(), HasSubstr("it prints without end"));
  EXPECT_TRUE(WaitGone());
}

// A Python by its name and file that obeys no hook: the probe finds it out, and nothing is run.
TEST_F(ParkedRanksTest, AnInterpreterThatDoesNotAnswerTheProbeNeverRunsTheProgramEarly) {
  std::filesystem::copy_file("/bin/bash", tree_.root() + "/python3");
  tree_.File("train.py", "echo trained >told\n");
  SpawnRequest request = Rank("1");
  request.path = tree_.root() + "/python3";
  request.argv = {"python3", "train.py"};
  StartCold(request);
  ASSERT_TRUE(RunUntil([&] { return changes_ > 0; }));
  EXPECT_THAT(log_, HasSubstr("this Python did not load the parking hook"));
  EXPECT_TRUE(WaitGone());
  EXPECT_EQ(Told(), "");
}

// What an interpreter that is too old says, by one that stands in for it.
TEST_F(ParkedRanksTest, AnInterpreterThatCannotBeParkedSaysWhy) {
  std::filesystem::copy_file("/bin/bash", tree_.root() + "/python3");
  SpawnRequest request = Rank("1");
  request.path = tree_.root() + "/python3";
  request.argv = {"python3", "train.py"};
  // bash runs what BASH_ENV names before it runs `-c pass`.
  tree_.File("answer",
             "IFS=: read -r _ fd nonce _ <<<\"$LOCKSTEP_PRESTART\"\n"
             "echo '{\"cannot\": \"'$nonce'\", \"why\": \"Python 3.7 is older than 3.8\"}' >&$fd\n"
             "exit 0\n");
  request.env.push_back("BASH_ENV=" + tree_.root() + "/answer");
  StartCold(request);
  ASSERT_TRUE(RunUntil([&] { return changes_ > 0; }));
  EXPECT_EQ(log_, "prestart: no interpreter is parked: Python 3.7 is older than 3.8\n");
  EXPECT_TRUE(WaitGone());
}

TEST_F(ParkedRanksTest, AProgramThatIsNoPythonHasNothingParkedAndIsToldWhy) {
  SpawnRequest request = Shell("echo trained >told");
  StartCold(request);
  ASSERT_TRUE(RunUntil([&] { return changes_ > 0; }));
  EXPECT_EQ(log_, "prestart: no interpreter is parked: sh is not Python\n");
  const std::vector<std::string> before = request.env;
  parked_->Record(0, &request);
  EXPECT_EQ(request.env, before);
}

TEST_F(ParkedRanksTest, AnOwnPythonPathStaysBehindTheHooks) {
  SpawnRequest request = Rank("1");
  request.env.emplace_back("PYTHONPATH=/mine:/other");
  parked_->Record(0, &request);
  EXPECT_THAT(request.env, testing::Contains("PYTHONPATH=" + Hook() + ":/mine:/other"));
  SpawnRequest empty = Rank("1");
  empty.env.emplace_back("PYTHONPATH=");
  parked_->Record(0, &empty);
  EXPECT_THAT(empty.env, testing::Contains("PYTHONPATH=" + Hook()));
}

TEST_F(ParkedRanksTest, AGenerationLeavesParkedInterpretersAloneUntilTheAgentLeaves) {
  StartCold(Rank("1"));
  ASSERT_TRUE(WaitReady()) << log_;
  processes_.Stop(BootTime());
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  EXPECT_EQ(parked_->ready(), 1U);
  parked_->Close();
  processes_.Stop(BootTime());
  ASSERT_TRUE(RunUntil([&] { return gone_ == 2; }));
  ExpectAllGone();
}

}  // namespace
}  // namespace lockstep::agent
