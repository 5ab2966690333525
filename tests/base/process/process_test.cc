#include "base/process/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "base/file.h"
#include "tests/base/loop_test_base.h"
#include "tests/base/shell.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class SpawnTest : public LoopTest {
 protected:
  SpawnTest() : spawner_(std::move(*Spawner::Create())) {}

  // What the program writes to stdout until it is gone.
  std::string OutputOf(const SpawnRequest& request) {
    SpawnResult result = spawner_->Spawn(request);
    auto* process = std::get_if<SpawnedProcess>(&result);
    if (process == nullptr) return std::get<SpawnFailure>(result).message;
    Output output(loop(), std::move(process->stdout_fd));
    EXPECT_TRUE(RunUntil([&] { return output.ended(); }));
    waitpid(process->pid, nullptr, 0);
    return output.text();
  }
  SpawnFailure FailureOf(const SpawnRequest& request) {
    SpawnResult result = spawner_->Spawn(request);
    EXPECT_TRUE(std::holds_alternative<SpawnFailure>(result));
    return std::get<SpawnFailure>(result);
  }

  std::unique_ptr<Spawner> spawner_;
};

TEST_F(SpawnTest, GivesArgumentsEnvironmentDirectoryAndPipes) {
  SpawnRequest request = Shell("echo \"$0 $A $(pwd)\"; echo oops >&2; cat");
  request.argv.emplace_back("zero");
  request.env.emplace_back("A=b c");
  request.working_directory = "/tmp";
  SpawnResult result = spawner_->Spawn(request);
  auto& process = std::get<SpawnedProcess>(result);
  Output out(loop(), std::move(process.stdout_fd));
  Output err(loop(), std::move(process.stderr_fd));
  ASSERT_TRUE(RunUntil([&] { return out.ended() && err.ended(); }));
  waitpid(process.pid, nullptr, 0);
  EXPECT_EQ(out.text(), "zero b c /tmp\n");
  EXPECT_EQ(err.text(), "oops\n");
}

TEST_F(SpawnTest, ItsStdinIsEmptyOrWhatIsGiven) {
  EXPECT_EQ(OutputOf(Shell("cat")), "");
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd given(ends[0]);
  UniqueFd writer(ends[1]);
  ASSERT_EQ(write(writer.get(), "told", 4), 4);
  writer.reset();
  SpawnRequest request = Shell("cat");
  request.stdin_fd = given.get();
  EXPECT_EQ(OutputOf(request), "told");
}

TEST_F(SpawnTest, TheProcessLeadsItsOwnGroup) {
  // Fields 3 and 5 of /proc/self/stat of a shell builtin: state and process group.
  const std::string out = OutputOf(Shell("read -r p n s pp g rest < /proc/$$/stat; echo $$ $g"));
  const size_t space = out.find(' ');
  EXPECT_EQ(out.substr(0, space), out.substr(space + 1, out.size() - space - 2)) << out;
}

TEST_F(SpawnTest, SignalsAreAsNewWhateverTheParentBlocksOrIgnores) {
  loop()->OnSignal(SIGTERM, [] {});
  signal(SIGPIPE, SIG_IGN);
  // Not a shell's own: busybox's ignores SIGQUIT.
  const std::string out =
      OutputOf({.path = "/bin/cat", .argv = {"cat", "/proc/self/status"}, .env = {}});
  EXPECT_THAT(out, HasSubstr("SigBlk:\t0000000000000000"));
  EXPECT_THAT(out, HasSubstr("SigIgn:\t0000000000000000"));
}

TEST_F(SpawnTest, NoDescriptorOfTheParentGoesDownButTheExtraOnes) {
  // Not close-on-exec, as if this process had inherited it.
  const UniqueFd leaky(open("/dev/null", O_RDONLY));
  const UniqueFd given(open("/dev/null", O_RDONLY | O_CLOEXEC));
  SpawnRequest request = Shell(
      "i=0; while [ $i -lt 100 ]; do [ -e /proc/$$/fd/$i ] && printf '%s ' $i; i=$((i+1)); done");
  request.extra_fds = {given.get(), leaky.get()};
  EXPECT_EQ(OutputOf(request), "0 1 2 3 4 ");
  request.extra_fds.clear();
  EXPECT_EQ(OutputOf(request), "0 1 2 ");
}

TEST_F(SpawnTest, AMissingFileIsToldFromAFileThatIsNoProgram) {
  SpawnFailure failure = FailureOf({.path = "/no/such/program", .argv = {"x"}, .env = {}});
  EXPECT_TRUE(failure.not_found());
  EXPECT_EQ(failure.errno_value, ENOENT);
  EXPECT_NE(failure.message.find("/no/such/program"), std::string::npos);
  failure = FailureOf({.path = "/etc/passwd", .argv = {"x"}, .env = {}});
  EXPECT_EQ(failure.step, SpawnFailure::Step::kExec);
  EXPECT_FALSE(failure.not_found());
  EXPECT_EQ(failure.errno_value, EACCES);
}

TEST_F(SpawnTest, WhyAScriptDoesNotStartIsToldOfItsOwnFile) {
  const std::string folder = ::testing::TempDir();
  const auto why = [&](const std::string& text, mode_t mode) {
    const std::string name = "script";
    EXPECT_TRUE(WriteFileAtomically(folder + name, text, {.mode = mode}).ok());
    return FailureOf({.path = "./" + name, .argv = {"x"}, .env = {}, .working_directory = folder})
        .message;
  };
  EXPECT_THAT(why("#!/bin/sh\r\ntrue\r\n", 0755), HasSubstr("CRLF"));
  EXPECT_THAT(why("#! /no/python -u\n", 0755),
              HasSubstr("the interpreter that its first line names, /no/python, does not exist"));
  EXPECT_THAT(why("#!/bin/sh\n", 0644), HasSubstr("it is not executable (chmod +x"));
  EXPECT_THAT(why("true\n", 0755), HasSubstr("a script needs a first line"));
  EXPECT_THAT(FailureOf({.path = "/usr", .argv = {"x"}, .env = {}}).message,
              HasSubstr("cannot start /usr: it is a folder"));
  EXPECT_THAT(FailureOf({.path = "./no", .argv = {"x"}, .env = {}}).message,
              HasSubstr("cannot start ./no: there is no such file"));
}

TEST_F(SpawnTest, AMissingWorkingDirectoryIsNamed) {
  SpawnRequest request = Shell("true");
  request.working_directory = "/no/such/folder";
  const SpawnFailure failure = FailureOf(request);
  EXPECT_FALSE(failure.not_found());
  EXPECT_NE(failure.message.find("/no/such/folder"), std::string::npos) << failure.message;
}

// Writes so many bytes downwards from here.
__attribute__((no_sanitize("address", "thread", "undefined"))) int UseStack(void* bytes) noexcept {
  auto* top = static_cast<volatile char*>(__builtin_frame_address(0));
  for (size_t i = 256; i < *static_cast<size_t*>(bytes); i += 256) *(top - i) = 1;
  return ECANCELED;
}

TEST_F(SpawnTest, ChildHasItsWholeStackOnPagesOfAnySize) {
  size_t bytes = 60 * 1024;
  SpawnRequest request = Shell(":");
  request.hook_data = &bytes;
  request.hook = UseStack;
  const SpawnFailure failure = FailureOf(request);
  EXPECT_EQ(failure.step, SpawnFailure::Step::kHook);
  EXPECT_EQ(failure.errno_value, ECANCELED);
}

// A sanitizer catches the signal and reports it.
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
TEST_F(SpawnTest, ChildThatOverflowsItsStackEndsAtTheGuardPage) {
  size_t bytes = 64 * 1024 + static_cast<size_t>(sysconf(_SC_PAGESIZE)) / 2;
  SpawnRequest request = Shell(":");
  request.hook_data = &bytes;
  request.hook = UseStack;
  SpawnResult result = spawner_->Spawn(request);
  ASSERT_TRUE(std::holds_alternative<SpawnedProcess>(result));
  int status = 0;
  waitpid(std::get<SpawnedProcess>(result).pid, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}
#endif

TEST_F(SpawnTest, TheHookRunsInTheChildAndWhatItWritesIsSeenHere) {
  struct Seen {
    pid_t pid = 0;
    int refuse_with = 0;
  } seen;
  SpawnRequest request = Shell("echo $$");
  request.hook_data = &seen;
  request.hook = [](void* data) noexcept {
    static_cast<Seen*>(data)->pid = getpid();
    return static_cast<Seen*>(data)->refuse_with;
  };
  EXPECT_EQ(OutputOf(request), std::to_string(seen.pid) + "\n");
  seen.refuse_with = EPERM;
  EXPECT_EQ(FailureOf(request).errno_value, EPERM);
  EXPECT_EQ(FailureOf(request).step, SpawnFailure::Step::kHook);
}

TEST_F(SpawnTest, ASessionOfItsOwnAndOneStreamAlone) {
  SpawnRequest request = Shell("read -r p n s pp g sid rest < /proc/$$/stat; echo $$ $sid");
  request.own_session = true;
  request.capture_stderr = false;
  const std::string out = OutputOf(request);
  const size_t space = out.find(' ');
  EXPECT_EQ(out.substr(0, space), out.substr(space + 1, out.size() - space - 2)) << out;
}

TEST_F(SpawnTest, ProcessesKeepTheLimitOnOpenFilesThatTheParentWasStartedWith) {
  const std::string before = OutputOf(Shell("ulimit -n"));
  spawner_->RaiseOwnFileLimit();
  EXPECT_EQ(OutputOf(Shell("ulimit -n")), before);
}

TEST(OwnProgram, IsTheFileThatRunsAlsoOnceItIsReplaced) {
  const std::string self = *OwnProgram();
  EXPECT_TRUE(std::filesystem::equivalent(self, "/proc/self/exe"));
  const std::string copy = ::testing::TempDir() + "own_program";
  std::filesystem::copy_file(self, copy, std::filesystem::copy_options::overwrite_existing);
  // The copy, whose file is gone when it looks.
  const pid_t child = fork();
  if (child == 0) {
    setenv("OWN_PROGRAM_TEST", copy.c_str(), 1);
    execl(copy.c_str(), copy.c_str(), "--gtest_filter=OwnProgram.DISABLED_Replaced",
          "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Of the test above alone, in the copy.
TEST(OwnProgram, DISABLED_Replaced) {
  const char* copy = std::getenv("OWN_PROGRAM_TEST");
  ASSERT_NE(copy, nullptr);
  std::filesystem::remove(copy);
  EXPECT_EQ(*OwnProgram(), copy);
}

TEST(FindExecutable, LooksWhereAShellWould) {
  EXPECT_EQ(std::get<std::string>(FindExecutable("sh", "/no/where:/bin", "")), "/bin/sh");
  EXPECT_EQ(std::get<std::string>(FindExecutable("./run", "/bin", "")), "./run");
  EXPECT_TRUE(std::get<SpawnFailure>(FindExecutable("no-such-command", "/bin", "")).not_found());
  EXPECT_FALSE(std::get<SpawnFailure>(FindExecutable("passwd", "/etc", "")).not_found());
  EXPECT_TRUE(std::get<SpawnFailure>(FindExecutable("", "/bin", "")).not_found());
}

}  // namespace
}  // namespace lockstep
