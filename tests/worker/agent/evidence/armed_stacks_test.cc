#include "worker/agent/evidence/armed_stacks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/gang/diagnosis/whereabouts.h"

namespace lockstep::agent {
namespace {

int armed_file = -1;
std::string* armed_text = nullptr;

// A process that is armed as lockstep.py does it, and writes `text` of its threads.
class Armed {
 public:
  explicit Armed(std::string text) {
    std::string pattern = ::testing::TempDir() + "stacks-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    armed_text = &text;
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      armed_file = open((folder_ + "/" + std::to_string(getpid())).c_str(),
                        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
      dprintf(armed_file, "%d\n", armed_file);
      signal(kEvidenceSignal, [](int) {
        if (write(armed_file, armed_text->data(), armed_text->size()) < 0) _exit(1);
      });
      if (write(ready[1], "1", 1) < 0) _exit(1);
      for (;;) pause();
    }
    char one = 0;
    EXPECT_EQ(read(ready[0], &one, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  ~Armed() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }
  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  pid_t pid_ = 0;
};

TEST(ArmedStacksTest, OfAProcessWithManyThreadsTheMainOneIsToldWhichComesLast) {
  std::string text;
  while (text.size() < 2 * kMaxStacks) {
    text +=
        "Thread 0x7f01 (most recent call first):\n  File \"/app/pool.py\", line 8 in "
        "work\n\n";
  }
  const Armed process(text +
                      "Current thread 0x7f02 (most recent call first):\n"
                      "  File \"/app/train.py\", line 30 in load_batch\n");
  const auto stacks = AskForStacks(process.folder(), {process.pid()}, BootTime() + minutes(1));
  ASSERT_EQ(stacks.size(), 1u);
  EXPECT_EQ(core::PlaceOf(stacks.at(process.pid())), "load_batch (train.py:30)");
}

}  // namespace
}  // namespace lockstep::agent
