#include "worker/agent/sync_receive.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/crypto/sha256.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/text/ascii.h"
#include "base/text/json.h"
#include "base/time.h"
#include "worker/agent/code/code_store.h"
#include "worker/agent/evidence/ask.h"
#include "worker/agent/rank_socket/ask_agent.h"
#include "worker/code/code_manifest.h"

namespace lockstep::agent {
namespace {

constexpr size_t kMaxHeader = size_t{64} << 10;
constexpr Duration kPatience = seconds(12);
constexpr Duration kPause = milliseconds(100);     // between looks at the gang, and more behind a
constexpr Duration kPauseAByte = microseconds(4);  // long answer, as --status --follow has it
constexpr size_t kLastGenerations = 3;
constexpr int kMostRounds = 5;
constexpr Duration kSilence = seconds(60);  // of a sender, within the code that it sends

// The bytes of stdin: lines, and the contents between them.
class Input {
 public:
  // False: its end. Waits for at most `patience`.
  bool WaitFor(Duration patience) {
    pollfd wait{STDIN_FILENO, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(patience / milliseconds(1))) <= 0) return true;
    return Read();
  }
  std::optional<std::string> TakeLine() {
    const size_t end = buffer_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return line;
  }
  bool too_long() const { return buffer_.size() > kMaxHeader; }
  Result<std::string> Take(uint64_t size) {
    while (buffer_.size() < size) {
      pollfd wait{STDIN_FILENO, POLLIN, 0};
      if (poll(&wait, 1, static_cast<int>(kSilence / milliseconds(1))) == 0) {
        return Error::Unavailable("the code's sender fell silent");
      }
      if (!Read()) return Error::Unavailable("the code's sender has gone");
    }
    std::string text = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return text;
  }

 private:
  bool Read() {
    std::array<char, 65536> bytes;
    ssize_t got = 0;
    do {
      got = read(STDIN_FILENO, bytes.data(), bytes.size());
    } while (got < 0 && errno == EINTR);
    if (got <= 0) return false;
    buffer_.append(bytes.data(), static_cast<size_t>(got));
    return true;
  }

  std::string buffer_;
};

Status Say(const Json& line) {
  return WriteAll(STDOUT_FILENO, DumpJson(line) + "\n", "standard output");
}

class Receiver {
 public:
  explicit Receiver(std::string run_dir)
      : run_dir_(std::move(run_dir)),
        incoming_(kIncomingFolder + std::to_string(getpid())),
        folder_(CodeHome(run_dir_) + "/" + incoming_) {}

  Status Run() {
    Result<Json> gang = Gang();
    if (!gang.ok()) return gang.error();
    if (!gang->contains("code")) {
      return Error::Invalid("this job does not allow sync: create it with spec.sync: {}");
    }
    RemoveAbandoned();
    if (Status said = Say({{"receives", 1}, {"gang", *gang}}); !said.ok()) return {};
    Status status = Serve();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    if (brought_) {
      static_cast<void>(AskAgent(Socket(), {{"id", 1}, {"editor_left", incoming_}}, kPatience));
    }
    return status;
  }

 private:
  std::string Socket() const { return run_dir_ + "/agent.sock"; }

  // What receivers that were killed have left.
  void RemoveAbandoned() const {
    std::vector<std::filesystem::path> folders;
    ForEachEntry(CodeHome(run_dir_), [&](const std::filesystem::directory_entry& entry) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(kIncomingFolder)) return;
      const auto pid = ParseNumber<int32_t>(name.substr(std::string_view(kIncomingFolder).size()));
      if (pid && kill(*pid, 0) != 0 && errno == ESRCH) folders.push_back(entry.path());
    });
    std::error_code ignored;
    for (const std::filesystem::path& folder : folders) {
      std::filesystem::remove_all(folder, ignored);
    }
  }

  Status Serve() {
    while (true) {
      if (const std::optional<std::string> line = input_.TakeLine()) {
        if (Status taken = Receive(*line); !taken.ok()) return taken;
        continue;
      }
      if (input_.too_long()) return Error::Invalid("a line is too long");
      if (!input_.WaitFor(std::max<Duration>(kPause, kPauseAByte * answered_))) return {};
      const Result<Json> gang = Gang();
      if (!gang.ok()) return gang.error();
      std::string text = gang->is_null() ? said_ : DumpJson(*gang);
      if (text == said_) continue;
      said_ = std::move(text);
      // The reader has gone.
      if (!Say({{"gang", *gang}}).ok()) return {};
    }
  }

  // What a user who syncs wants to know; null: nothing has changed.
  Result<Json> Gang() {
    const Result<GangNews> news = AskForGang(run_dir_, version_);
    if (!news.ok()) return news.error();
    version_ = news->version;
    answered_ = static_cast<int64_t>(news->text.size());
    if (news->text.empty()) return Json();
    const Json all = ParseJson(news->text);
    if (!all.is_object() || !all.contains("gang") || !all["gang"].is_object()) {
      return Error::Invalid("the agent's answer cannot be read");
    }
    const Json& gang = all["gang"];
    Json told = Json::object();
    for (const char* name : {"phase", "reason", "generation", "code"}) {
      if (gang.contains(name)) told[name] = gang[name];
    }
    Json& history = told["history"] = Json::array();
    if (gang.contains("history") && gang["history"].is_array()) {
      const Json& generations = gang["history"];
      const size_t from = generations.size() - std::min(generations.size(), kLastGenerations);
      for (size_t i = from; i < generations.size(); ++i) history.push_back(generations[i]);
    }
    return told;
  }

  // {"digest", "replaces", "by", "words", "watched", "manifest": BYTES}, then the manifest.
  Status Receive(const std::string& line) {
    const Json header = ParseJson(line);
    const bool whole = header.is_object() && header.contains("manifest") &&
                       header["manifest"].is_number_unsigned() && header.contains("digest") &&
                       header["digest"].is_string();
    if (!whole) return Error::Invalid("a line of the code's sender cannot be read");
    const uint64_t size = header["manifest"];
    if (size > kMaxCodeManifestText) return Error::TooLarge("the list of files is too long");
    const Result<std::string> text = input_.Take(size);
    if (!text.ok()) return text.error();
    const Result<CodeManifest> manifest = ParseCodeManifest(*text);
    if (!manifest.ok()) return manifest.error();
    // The agent may drop older contents meanwhile.
    for (int round = 0; round < kMostRounds; ++round) {
      if (Status brought = Bring(*manifest, *text); !brought.ok()) return brought;
      Json question = {{"id", 1},
                       {"code", header["digest"]},
                       {"incoming", incoming_},
                       {"watched", header.value("watched", Json(false)) == Json(true)}};
      for (const char* name : {"replaces", "by", "words"}) {
        const bool told = header.contains(name) && header[name].is_string();
        question[name] = told ? header[name] : Json("");
      }
      const Result<Json> answer = AskAgent(Socket(), question, kPatience);
      if (!answer.ok()) return answer.error();
      if (answer->value("ok", Json(false)) == Json(true)) {
        brought_ = true;
        version_ = 0;
        said_.clear();
        return Say({{"taken", header["digest"]}});
      }
      if (answer->value("missing", Json(false)) == Json(true)) continue;
      version_ = 0;
      said_.clear();
      return Say({{"refused", answer->value("reason", Json("the agent gave no reason"))},
                  {"later", answer->value("later", Json(false))}});
    }
    return Error::Invalid("the agent lacks some of the files again and again");
  }

  Status Bring(const CodeManifest& manifest, const std::string& text) {
    std::error_code code;
    std::filesystem::create_directories(folder_, code);
    if (code) return Error::Unavailable("making " + folder_ + ": " + code.message());
    Status written = WriteFileAtomically(folder_ + "/" + kIncomingManifest, text, {.mode = 0600});
    if (!written.ok()) return written;
    std::vector<const CodeFile*> missing;
    Json list = Json::array();
    std::set<std::string> seen;
    for (const auto& [path, file] : manifest.files) {
      if (!seen.insert(file.sha256).second || IsHere(file)) continue;
      missing.push_back(&file);
      list.push_back(file.sha256);
    }
    if (missing.empty()) return {};
    if (Status said = Say({{"missing", list}}); !said.ok()) return said;
    for (const CodeFile* file : missing) {
      const Result<std::string> content = input_.Take(file->size);
      if (!content.ok()) return content.error();
      Sha256 hash;
      hash.Add(std::as_bytes(std::span(*content)));
      if (hash.Hex() != file->sha256) return Error::Invalid("a file arrived with another hash");
      written = WriteFileAtomically(folder_ + "/" + file->sha256, *content, {.mode = 0600});
      if (!written.ok()) return written;
    }
    return {};
  }

  // As CodeStore::Take looks for it.
  bool IsHere(const CodeFile& file) const {
    return std::ranges::any_of(
        std::array{CodeHome(run_dir_) + "/stage/", folder_ + "/"}, [&](const std::string& folder) {
          std::error_code none;
          return std::filesystem::file_size(folder + file.sha256, none) == file.size && !none;
        });
  }

  std::string run_dir_;
  std::string incoming_;
  std::string folder_;
  Input input_;
  uint64_t version_ = 0;  // of the gang, as the agent last had it
  int64_t answered_ = 0;  // bytes
  std::string said_;      // of the gang, last
  bool brought_ = false;
};

}  // namespace

Status ReceiveCode(const std::string& run_dir) {
  signal(SIGPIPE, SIG_IGN);
  return Receiver(run_dir).Run();
}

}  // namespace lockstep::agent
