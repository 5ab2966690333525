#include "worker/agent/measure/measurer.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>
#include <variant>

#include "base/file.h"
#include "worker/agent/measure/measure_child.h"

namespace lockstep::agent {

Measurer::Measurer(EventLoop* loop, Spawner* spawner, Options options, OnMeasured on_measured,
                   LogFn log)
    : loop_(loop),
      spawner_(spawner),
      options_(std::move(options)),
      on_measured_(std::move(on_measured)),
      log_(std::move(log)) {}

Measurer::~Measurer() { Stop(); }

void Measurer::Measure(const core::Measure& measure) {
  if (!measure.linked) {
    Stop();
    const Status begun = Begin();
    if (!begun.ok()) log_("preflight: " + begun.error().message);
  }
  if (!socket_.valid()) return;  // the coordinator waits no longer than it would for any answer
  const Status told = WriteAll(socket_.get(), EncodeFrame(core::Encode(measure)), "the child");
  if (!told.ok()) Stop();
}

Status Measurer::Begin() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return ErrnoError("socketpair", errno);
  }
  UniqueFd own(ends[0]);
  const UniqueFd its(ends[1]);
  SpawnResult result =
      spawner_->Spawn({.path = options_.executable,
                       .argv = {"lockstep-measure", kMeasureArgument, options_.host,
                                std::to_string(options_.machine), options_.folder,
                                options_.gpus ? kMeasureGpus : ""},
                       .env = options_.env,
                       .capture_stdout = false,
                       .capture_stderr = false,
                       .extra_fds = {its.get()}});
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    return Error::Unavailable(failure->message);
  }
  child_ = std::move(std::get<SpawnedProcess>(result));
  socket_ = std::move(own);
  frames_ = FrameSplitter(core::kMaxMessage);
  return loop_->Watch(socket_.get(), EPOLLIN, [this](uint32_t) { OnReadable(); });
}

void Measurer::OnReadable() {
  std::array<char, 4096> buffer;
  const ssize_t got = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) return Stop();  // it is done, or dead
  frames_.Feed({buffer.data(), static_cast<size_t>(got)});
  while (const std::optional<std::string_view> body = frames_.Next()) {
    Result<core::Message> message = core::Decode(*body);
    if (!message.ok() || !std::holds_alternative<core::Measured>(*message)) return Stop();
    on_measured_(std::get<core::Measured>(std::move(*message)));
    if (!socket_.valid()) return;
  }
}

void Measurer::Stop() {
  if (!socket_.valid()) return;
  loop_->Unwatch(socket_.get());
  socket_.reset();
  // A pidfd: whoever reaps the agent's children may have reaped it.
  syscall(SYS_pidfd_send_signal, child_.pidfd.get(), SIGKILL, nullptr, 0);
  child_ = {};
}

}  // namespace lockstep::agent
