#include "cli/mcp/call.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>
#include <variant>

#include "base/unique_fd.h"
#include "core/exit_codes.h"
#include "core/text/limited_text.h"

namespace lockstep::cli::mcp {
namespace {

constexpr size_t kMostOfWords = size_t{8} << 10;

// A file in memory that holds `text`, read from its start. Not valid if the kernel has no room.
UniqueFd FileOf(const std::string& text) {
  UniqueFd file(memfd_create("lockstep-mcp-input", MFD_CLOEXEC));
  size_t done = 0;
  while (file.valid() && done < text.size()) {
    const ssize_t wrote = write(file.get(), text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return {};
    done += static_cast<size_t>(wrote);
  }
  if (file.valid() && lseek(file.get(), 0, SEEK_SET) != 0) return {};
  return file;
}

// Appends what can be read: `most` bytes of its start, or of its end. Whether the pipe goes on.
enum class Got : uint8_t { kBytes, kNothing, kEnd };
Got ReadSome(int fd, size_t most, bool keeps_end, std::string* text, size_t* bytes) {
  std::array<char, 65536> block;
  const ssize_t got = read(fd, block.data(), block.size());
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Got::kNothing : Got::kEnd;
  const auto count = static_cast<size_t>(got);
  *bytes += count;
  text->append(block.data(), keeps_end ? count : std::min(count, most - text->size()));
  if (text->size() > most) text->erase(0, text->size() - most);
  return got > 0 ? Got::kBytes : Got::kEnd;
}

std::string Cut(const Command& command, size_t shown, size_t all) {
  return "[cut: " + std::string(command.keeps_end ? "the last " : "the first ") +
         std::to_string(shown) + " of " + std::to_string(all) +
         " bytes are shown; ask for less, such as one rank or fewer lines]\n";
}

// The output of one command within `most` bytes.
std::string Shown(const Command& command, const Output& output, size_t most) {
  std::string text =
      command.keeps_end ? core::LastBytes(output.text, most) : core::FirstBytes(output.text, most);
  if (!text.empty() && text.back() != '\n') text += '\n';
  if (output.bytes <= most) return text;
  const std::string cut = Cut(command, most, output.bytes);
  return command.keeps_end ? cut + text : text + cut;
}

}  // namespace

ToolAnswer JoinOutputs(const std::vector<Command>& commands, const std::vector<Output>& outputs) {
  ToolAnswer answer;
  for (size_t i = 0; i < commands.size(); ++i) {
    const Command& command = commands[i];
    const Output& output = outputs[i];
    const bool failed = output.code != 0 || !output.problem.empty();
    answer.is_error = answer.is_error || (failed && !command.optional);
    if (!command.title.empty()) answer.text += (i > 0 ? "\n" : "") + command.title + "\n";
    answer.text += Shown(command, output, kMostOfAnswer / commands.size());
    if (!output.words.empty()) {
      answer.text += core::Printable(output.words);
      if (answer.text.back() != '\n') answer.text += '\n';
    }
    if (!output.problem.empty()) answer.text += "lockstep: " + output.problem + "\n";
    if (failed && output.problem.empty() && !command.optional) {
      answer.text += "exit code " + std::to_string(output.code) + "\n";
    }
  }
  if (answer.text.empty()) answer.text = "There is nothing to show.\n";
  return answer;
}

Call::Call(Programs programs, std::vector<Command> commands, Take take)
    : programs_(std::move(programs)),
      commands_(std::move(commands)),
      outputs_(commands_.size()),
      take_(std::move(take)) {
  for (size_t i = 0; i < commands_.size(); ++i) Start(i);
  if (running_.empty()) programs_.loop->Post(lifetime_.Guard([this] { End(); }));
}

Call::~Call() {
  for (Running& running : running_) {
    Unwatch(running);
    syscall(SYS_pidfd_send_signal, running.process.pidfd.get(), SIGKILL, nullptr, 0);
    waitpid(running.process.pid, nullptr, 0);
  }
}

void Call::Start(size_t index) {
  const Command& command = commands_[index];
  Output& output = outputs_[index];
  SpawnRequest request;
  request.path = programs_.self;
  request.argv = {programs_.self};
  request.argv.insert(request.argv.end(), command.words.begin(), command.words.end());
  request.env = OwnEnvironment();
  UniqueFd input;
  if (!command.input.empty()) {
    input = FileOf(command.input);
    if (!input.valid()) {
      output.problem = "there is no memory for the command's input";
      return;
    }
    request.stdin_fd = input.get();
  }
  SpawnResult result = programs_.spawner->Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    output.problem = failure->message;
    return;
  }
  const Place running = running_.emplace(running_.end());
  running->index = index;
  running->process = std::move(std::get<SpawnedProcess>(result));
  for (const UniqueFd* fd : {&running->process.stdout_fd, &running->process.stderr_fd}) {
    [[maybe_unused]] const Status watched =
        programs_.loop->Watch(fd->get(), EPOLLIN, [this, running](uint32_t) { Read(running); });
  }
  [[maybe_unused]] const Status watched = programs_.loop->Watch(
      running->process.pidfd.get(), EPOLLIN, [this, running](uint32_t) { OnEnd(running); });
  running->patience = programs_.loop->StartTimer(BootTime() + programs_.patience, [this, running] {
    outputs_[running->index].problem =
        "no end within " + std::to_string(programs_.patience / seconds(1)) +
        " s, so the command was killed; `lockstep mcp --timeout` allows more";
    syscall(SYS_pidfd_send_signal, running->process.pidfd.get(), SIGKILL, nullptr, 0);
  });
}

bool Call::Read(Place running) {
  Output& output = outputs_[running->index];
  bool some = false;
  size_t ignored = 0;
  const auto read_one = [&](UniqueFd& fd, size_t most, bool keeps_end, std::string* text,
                            size_t* bytes) {
    if (!fd.valid()) return;
    const Got got = ReadSome(fd.get(), most, keeps_end, text, bytes);
    some = some || got == Got::kBytes;
    if (got != Got::kEnd) return;
    programs_.loop->Unwatch(fd.get());
    fd.reset();
  };
  const bool keeps_end = commands_[running->index].keeps_end;
  read_one(running->process.stdout_fd, kMostOfAnswer, keeps_end, &output.text, &output.bytes);
  read_one(running->process.stderr_fd, kMostOfWords, false, &output.words, &ignored);
  return some;
}

void Call::Unwatch(Running& running) {
  programs_.loop->CancelTimer(running.patience);
  SpawnedProcess& process = running.process;
  for (UniqueFd* fd : {&process.stdout_fd, &process.stderr_fd, &process.pidfd}) {
    if (fd->valid()) programs_.loop->Unwatch(fd->get());
  }
}

void Call::OnEnd(Place running) {
  while (Read(running)) {  // what it wrote before its end
  }
  int status = 0;
  waitpid(running->process.pid, &status, 0);
  Output& output = outputs_[running->index];
  output.code = WIFSIGNALED(status) ? core::kExitSignal + WTERMSIG(status) : WEXITSTATUS(status);
  Unwatch(*running);
  running_.erase(running);
  if (running_.empty()) End();
}

void Call::End() {
  const Take take = std::move(take_);  // it may destroy this
  take(JoinOutputs(commands_, outputs_));
}

}  // namespace lockstep::cli::mcp
