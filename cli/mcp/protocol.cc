#include "cli/mcp/protocol.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/text/limited_text.h"

namespace lockstep::cli::mcp {
namespace {

constexpr int kParseError = -32700;
constexpr int kInvalidRequest = -32600;
constexpr int kMethodNotFound = -32601;
constexpr int kInvalidParams = -32602;
constexpr size_t kMostOfWord = 100;  // of the client's, in a message

// Newest first. 2025-03-26 demands batches, which no other version has.
constexpr std::array<std::string_view, 3> kVersions = {"2025-11-25", "2025-06-18", "2024-11-05"};

// The newest that is not newer than the client's, whose names are dates.
std::string_view VersionFor(const std::string& asked) {
  const auto found =
      std::ranges::find_if(kVersions, [&](std::string_view each) { return each <= asked; });
  return found == kVersions.end() ? kVersions.front() : *found;
}

bool IsId(const Json& id) { return id.is_string() || id.is_number_integer(); }

std::string Word(const std::string& text) {
  return "\"" + core::FirstBytes(core::OneLine(text), kMostOfWord) + "\"";
}

OrderedJson Ordered(const Json& json) { return ParseOrderedJson(DumpJson(json)); }

}  // namespace

void Protocol::OnTooLong() {
  SendError(Json(), kParseError,
            "the line is longer than " + std::to_string(kMaxLine) + " bytes and is dropped");
}

void Protocol::OnLine(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty()) return;
  const Json message = ParseJson(line);
  if (message.is_discarded()) return SendError(Json(), kParseError, "the line is not JSON");
  if (message.is_array()) {
    return SendError(Json(), kInvalidRequest, "batches are not supported: send one message a line");
  }
  if (!message.is_object())
    return SendError(Json(), kInvalidRequest, "the message is not an object");
  const Json id = message.value("id", Json());
  const bool has_id = message.contains("id");
  if (!message.contains("method")) {
    // An answer to a request: this server makes none.
    if (message.contains("result") || message.contains("error")) return;
    return SendError(IsId(id) ? id : Json(), kInvalidRequest, "the message has no method");
  }
  const Json& method = message["method"];
  const bool valid = method.is_string() && message.value("jsonrpc", Json()) == Json("2.0") &&
                     (!has_id || IsId(id));
  if (!valid) {
    return SendError(IsId(id) ? id : Json(), kInvalidRequest,
                     "a request has \"jsonrpc\": \"2.0\", a string as method, and a string or a "
                     "whole number as id");
  }
  const Json params = message.value("params", Json::object());
  if (!has_id) return OnNotification(method.get<std::string>(), params);
  OnRequest(id, method.get<std::string>(), params);
}

void Protocol::OnRequest(const Json& id, const std::string& method, const Json& params) {
  if (!params.is_object()) return SendError(id, kInvalidParams, "params must be an object");
  if (method == "ping") return SendResult(id, OrderedJson::object());
  if (method == "initialize") return Initialize(id, params);
  if (!initialized_) {
    return SendError(id, kInvalidRequest, "the first request must be initialize");
  }
  if (method == "tools/list") return SendResult(id, {{"tools", about_.tools}});
  if (method == "tools/call") return CallTool(id, params);
  SendError(id, kMethodNotFound, "there is no method " + Word(method));
}

void Protocol::OnNotification(const std::string& method, const Json& params) {
  if (method != "notifications/cancelled" || !params.is_object()) return;
  const Json id = params.value("requestId", Json());
  const auto call = std::ranges::find(calls_, id, [](const auto& each) { return each.second; });
  if (call == calls_.end()) return;
  const CallId number = call->first;
  calls_.erase(call);
  handlers_.cancel(number);
}

void Protocol::Initialize(const Json& id, const Json& params) {
  const Json asked = params.value("protocolVersion", Json());
  if (!asked.is_string()) {
    return SendError(id, kInvalidParams, "params.protocolVersion must be a string");
  }
  initialized_ = true;
  SendResult(id, {{"protocolVersion", VersionFor(asked.get<std::string>())},
                  {"capabilities", {{"tools", {{"listChanged", false}}}}},
                  {"serverInfo",
                   {{"name", "lockstep"}, {"title", "Lockstep"}, {"version", about_.version}}},
                  {"instructions", about_.instructions}});
}

void Protocol::CallTool(const Json& id, const Json& params) {
  const Json name = params.value("name", Json());
  if (!name.is_string()) return SendError(id, kInvalidParams, "params.name must be a string");
  const std::string tool = name.get<std::string>();
  if (!about_.is_tool(tool)) {
    return SendError(id, kInvalidParams, "there is no tool " + Word(tool) + "; see tools/list");
  }
  const bool taken =
      std::ranges::any_of(calls_, [&](const auto& each) { return each.second == id; });
  if (taken) return SendError(id, kInvalidRequest, "a call with this id is under way");
  const CallId call = ++last_call_;
  const bool full = calls_.size() >= kMostCalls;
  calls_[call] = id;
  if (full) {
    return Answer(
        call,
        {std::to_string(kMostCalls) + " calls are under way; call again once one has ended", true});
  }
  handlers_.start(call, tool, params.value("arguments", Json::object()));
}

void Protocol::Answer(CallId call, const ToolAnswer& answer) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  const Json id = found->second;
  calls_.erase(found);
  OrderedJson content = OrderedJson::array();
  content.push_back({{"type", "text"}, {"text", answer.text}});
  SendResult(id, {{"content", std::move(content)}, {"isError", answer.is_error}});
}

void Protocol::SendResult(const Json& id, OrderedJson result) {
  Send({{"jsonrpc", "2.0"}, {"id", Ordered(id)}, {"result", std::move(result)}});
}

void Protocol::SendError(const Json& id, int code, const std::string& message) {
  Send(
      {{"jsonrpc", "2.0"}, {"id", Ordered(id)}, {"error", {{"code", code}, {"message", message}}}});
}

void Protocol::Send(const OrderedJson& message) { handlers_.send(DumpJson(message) + "\n"); }

}  // namespace lockstep::cli::mcp
