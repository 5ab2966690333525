#include "cli/cluster/code_sender.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <map>
#include <utility>
#include <variant>

#include "base/file.h"
#include "cli/say.h"
#include "core/text/limited_text.h"
#include "worker/code/code_manifest.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMostOfWords = 4096;
constexpr Duration kOfferAgainAfter = milliseconds(500);
constexpr Duration kGoodbye = seconds(2);  // for kubectl to end by itself

std::string Text(const Json& object, const char* name) {
  const bool has = object.is_object() && object.contains(name) && object[name].is_string();
  return has ? object[name].get<std::string>() : "";
}

std::string Elapsed(Time since) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", Seconds(BootTime() - since));
  return text.data();
}

}  // namespace

CodeSender::CodeSender(EventLoop* loop, Spawner* spawner, CodeScanner* scanner, Options options,
                       Owner* owner)
    : loop_(loop),
      spawner_(spawner),
      scanner_(scanner),
      options_(std::move(options)),
      owner_(owner),
      retry_(loop, [this] {
        if (!greeted_ || !process_ || offering_) return;
        if (OthersCame()) return SayOthersCame();
        Offer();
      }) {}

CodeSender::~CodeSender() { Stop(); }

Status CodeSender::Scan() {
  Result<CodeScan> scan = scanner_->Scan();
  if (!scan.ok()) return scan.error();
  scan_ = std::move(*scan);
  if (edited_ == Time{}) edited_ = BootTime();
  return {};
}

void CodeSender::Start(std::vector<std::string> argv) {
  std::array<int, 2> pipe{};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) {
    const Error error = ErrnoError("pipe", errno);
    return loop_->Post([this, error] { owner_->OnLineEnded(error.message); });
  }
  const UniqueFd theirs(pipe[0]);
  stdin_.reset(pipe[1]);
  fcntl(pipe[1], F_SETFL, O_NONBLOCK);
  const char* path = std::getenv("PATH");
  auto found = FindExecutable(argv.front(), path == nullptr ? "" : path, "");
  SpawnRequest request;
  request.argv = std::move(argv);
  request.env = OwnEnvironment();
  request.stdin_fd = theirs.get();
  SpawnResult result = SpawnFailure{};
  if (auto* file = std::get_if<std::string>(&found)) {
    request.path = std::move(*file);
    result = spawner_->Spawn(request);
  } else {
    result = std::get<SpawnFailure>(found);
  }
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    return loop_->Post([this, why = failure->message] { owner_->OnLineEnded(why); });
  }
  process_ = std::move(std::get<SpawnedProcess>(result));
  received_.clear();
  words_.clear();
  greeted_ = offering_ = again_ = false;
  for (const UniqueFd* fd : {&process_->stdout_fd, &process_->stderr_fd}) {
    static_cast<void>(loop_->Watch(fd->get(), EPOLLIN, [this](uint32_t) { Read(); }));
  }
}

void CodeSender::Stop() {
  CloseInput();
  if (!process_) return;
  for (UniqueFd* fd : {&process_->stdout_fd, &process_->stderr_fd}) {
    if (fd->valid()) loop_->Unwatch(fd->get());
  }
  // The end of its input is passed on to the agent.
  pollfd end{process_->pidfd.get(), POLLIN, 0};
  poll(&end, 1, static_cast<int>(kGoodbye / milliseconds(1)));
  syscall(SYS_pidfd_send_signal, process_->pidfd.get(), SIGTERM, nullptr, 0);
  waitpid(process_->pid, nullptr, 0);
  process_.reset();
}

void CodeSender::Read() {
  std::array<char, 65536> block;
  const auto read_one = [&](UniqueFd& fd, std::string& text) {
    if (!fd.valid()) return;
    const ssize_t got = read(fd.get(), block.data(), block.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0) {
      text.append(block.data(), static_cast<size_t>(got));
      return;
    }
    loop_->Unwatch(fd.get());
    fd.reset();
  };
  read_one(process_->stdout_fd, received_);
  read_one(process_->stderr_fd, words_);
  if (words_.size() > kMostOfWords) words_.resize(kMostOfWords);
  for (size_t end = received_.find('\n'); end != std::string::npos; end = received_.find('\n')) {
    const std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    OnLine(line);
    if (!process_) return;
  }
  if (process_->stdout_fd.valid() || process_->stderr_fd.valid()) return;
  std::string why = words_.empty() ? "kubectl exec has ended" : words_;
  why.erase(why.find_last_not_of(" \r\n") + 1);
  Stop();
  owner_->OnLineEnded(why);
}

void CodeSender::OnLine(std::string_view line) {
  const Json told = ParseJson(line);
  if (!told.is_object()) return;
  if (told.contains("receives")) {
    return OnGreeting(told.contains("gang") ? told["gang"] : Json());
  }
  if (told.contains("missing")) return SendMissing(told["missing"]);
  if (told.contains("taken")) {
    offering_ = false;
    if (offered_ != current_) replaced_ = current_;
    taken_ = current_ = offered_;
    known_ = scan_.manifest;
    if (std::exchange(again_, false)) static_cast<void>(OnEdit());
    return;
  }
  if (told.contains("refused")) {
    offering_ = false;
    again_ = false;
    offered_.clear();
    const std::string why = Text(told, "refused");
    const bool later = told.contains("later") && told["later"] == Json(true);
    stale_ = true;
    if (!later) return owner_->OnRefused(why);
    if (why != reason_) Say(why + "; waiting");
    reason_ = why;
    return retry_.WakeAt(BootTime() + kOfferAgainAfter);
  }
  if (told.contains("gang")) OnGang(told["gang"]);
}

void CodeSender::OnGreeting(const Json& gang) {
  greeted_ = true;
  const Json code = gang.is_object() && gang.contains("code") ? gang["code"] : Json();
  const std::string digest = Text(code, "digest");
  if (digest != current_) known_ = {};
  current_ = digest;
  current_by_ = Text(code, "by");
  // While machine 0 does not know which code runs, it names no generation, and takes no code.
  const bool known = !Text(code, "generation").empty();
  if (known && OthersCame()) return SayOthersCame();
  const bool others = !digest.empty() && digest != scan_.manifest.Digest() && digest != taken_;
  if (known && others) {
    Say("this replaces the code that " + (current_by_.empty() ? "somebody" : current_by_) +
        " synced before");
  }
  // What this user's last command left behind is replaced.
  if (Text(code, "nextBy") == options_.by) current_ = Text(code, "next");
  Offer();
}

bool CodeSender::OthersCame() const {
  return !taken_.empty() && !current_.empty() && current_ != taken_ && current_ != replaced_ &&
         current_ != scan_.manifest.Digest();
}

void CodeSender::SayOthersCame() {
  offered_.clear();
  Say((current_by_.empty() ? "somebody" : current_by_) +
      " has synced other code meanwhile; save a file to replace it");
}

Status CodeSender::OnEdit() {
  if (offering_) {
    again_ = true;
    return {};
  }
  const std::string before = scan_.manifest.Digest();
  if (Status scanned = Scan(); !scanned.ok()) return scanned;
  if (scan_.manifest.Digest() == before && offered_ == before) return {};
  edited_ = BootTime();
  if (greeted_ && process_) Offer();
  return {};
}

void CodeSender::Offer() {
  const std::string digest = scan_.manifest.Digest();
  const std::string manifest = ToText(scan_.manifest);
  const std::vector<std::string> changes = Changes(known_, scan_.manifest);
  const std::string words = known_.files.empty()
                                ? std::to_string(scan_.manifest.files.size()) + " files"
                                : NamesOfChanges(changes) + " changed";
  const Json header = {{"digest", digest},          {"replaces", current_},
                       {"by", options_.by},         {"words", words},
                       {"watched", options_.watch}, {"manifest", manifest.size()}};
  offering_ = true;
  offered_ = digest;
  runs_ = failed_ = {};
  Write(DumpJson(header) + "\n" + manifest);
}

void CodeSender::SendMissing(const Json& digests) {
  if (!digests.is_array()) return;
  std::map<std::string, uint64_t> sizes;
  for (const auto& [path, file] : scan_.manifest.files) sizes[file.sha256] = file.size;
  for (const Json& digest : digests) {
    // Only what was hashed is sent, whatever an agent asks for.
    const auto wanted = digest.is_string() ? sizes.find(digest.get<std::string>()) : sizes.end();
    if (wanted == sizes.end()) return CloseInput();
    const Result<std::string> content =
        ReadFile(options_.stage + "/" + wanted->first, kMaxCodeFile);
    if (!content.ok()) {
      Say(content.error().message);
      return CloseInput();
    }
    Write(*content);
  }
}

void CodeSender::Write(std::string_view text) {
  if (!stdin_.valid()) return;
  const bool waits = !unsent_.empty();
  unsent_.append(text);
  if (!waits) Flush();
}

// Sends what the pipe takes now, and the rest when it takes more: a signal ends a command whose
// upload stalls. If the other side is gone, Read hears of it.
void CodeSender::Flush() {
  loop_->Unwatch(stdin_.get());
  while (sent_ < unsent_.size()) {
    const ssize_t n = write(stdin_.get(), unsent_.data() + sent_, unsent_.size() - sent_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      static_cast<void>(loop_->Watch(stdin_.get(), EPOLLOUT, [this](uint32_t) { Flush(); }));
      return;
    }
    if (n < 0) return CloseInput();
    sent_ += static_cast<size_t>(n);
  }
  unsent_.clear();
  sent_ = 0;
}

void CodeSender::CloseInput() {
  if (stdin_.valid()) loop_->Unwatch(stdin_.get());
  stdin_.reset();
  unsent_.clear();
  sent_ = 0;
}

void CodeSender::OnGang(const Json& gang) {
  if (!gang.is_object() || offering_) return;
  const Json code = gang.contains("code") ? gang["code"] : Json::object();
  // The user has read that other code runs. The next edit replaces it.
  const bool known = Text(code, "digest").empty() || !Text(code, "generation").empty();
  if (stale_ && known) {
    stale_ = false;
    known_ = {};
    current_ = Text(code, "digest");
    current_by_ = Text(code, "by");
  }
  if (offered_.empty()) return;
  if (Text(code, "dropped") == offered_) {
    offered_.clear();
    current_ = Text(code, "digest");
    return owner_->OnRefused(Text(code, "problem"));
  }
  const bool broken = code.contains("broken") && code["broken"] == Json(true);
  if (gang.contains("history") && gang["history"].is_array()) {
    for (const Json& record : gang["history"]) {
      if (Text(record, "code") == offered_) ShowGeneration(record, broken);
    }
  }
  const std::string phase = Text(gang, "phase");
  const bool everywhere = Text(code, "digest") == offered_;
  const std::string missing = Text(code, "missing");
  std::string reason;
  if (phase == "Held" || phase == "Backoff") reason = Text(gang, "reason");
  if (!everywhere && !missing.empty()) reason = "waiting for the code on machines " + missing;
  if (!reason.empty() && reason != reason_ && !runs_.exists() && !broken) Say(reason);
  reason_ = reason;
  if (everywhere && missing.empty() && phase == "Held" && !broken) owner_->OnCodeRuns();
}

void CodeSender::ShowGeneration(const Json& record, bool broken) {
  const Result<core::Generation> parsed = core::Generation::Parse(Text(record, "generation"));
  if (!parsed.ok()) return;
  const core::Generation generation = *parsed;
  const bool spawned = record.contains("spawned") && record["spawned"].is_number();
  if (spawned && runs_ < generation) {
    Say("all ranks run the new code " + Elapsed(edited_) + " after the edit, as generation " +
        generation.ToString());
    runs_ = generation;
    owner_->OnCodeRuns();
  }
  const bool ended = record.contains("ended") && record["ended"].is_number();
  if (!ended || failed_ >= generation || !record.contains("failure")) return;
  const Json& failure = record["failure"];
  if (Text(failure, "cause") == "None" || Text(failure, "cause") == "StopRequested") return;
  failed_ = generation;
  const std::string tail = core::Printable(Text(failure, "stderr"));
  if (!tail.empty()) std::cerr << tail << (tail.ends_with('\n') ? "" : "\n");
  Say("generation " + generation.ToString() + " ended: " + Text(failure, "message") +
      (broken ? "; waiting for the next edit" : ""));
}

}  // namespace lockstep::cli
