// Protocol: a server's side of the Model Context Protocol (modelcontextprotocol.io), of which it
// offers tools alone: JSON-RPC 2.0, one message a line. Pure: lines go in, lines and calls come
// out. One thread.
//
//   Protocol protocol({.version = kVersion, .tools = ListTools(options), ...}, handlers);
//   protocol.OnLine(line);                      // handlers.send, .start and .cancel are called
//   protocol.Answer(call, {.text = ...});       // the call's result is sent
//
// Answers to bad input, as JSON-RPC has them:
//   -32700  the line is no JSON, or longer than kMaxLine
//   -32600  it is no request, a batch, before `initialize`, or has the id of a call under way
//   -32601  there is no such method
//   -32602  its params are wrong, or name no tool
// Wrong arguments of a tool are a result with isError, so that the model sees and corrects them.
// Bounded: kMaxLine bytes a line, kMostCalls calls at once.
#ifndef LOCKSTEP_CLI_MCP_PROTOCOL_H_
#define LOCKSTEP_CLI_MCP_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/text/json.h"

namespace lockstep::cli::mcp {

using CallId = uint64_t;

struct ToolAnswer {
  std::string text;
  bool is_error = false;
};

class Protocol {
 public:
  static constexpr size_t kMaxLine = size_t{4} << 20;
  static constexpr size_t kMostCalls = 16;

  struct About {
    std::string version;       // the server's
    std::string instructions;  // how to use the tools, for the model
    OrderedJson tools;
    std::function<bool(std::string_view)> is_tool;
  };
  struct Handlers {
    std::function<void(const std::string& line)> send;  // with its end
    // Answer must be called once, now or later, unless the call is cancelled.
    std::function<void(CallId call, const std::string& tool, const Json& arguments)> start;
    std::function<void(CallId call)> cancel;
  };

  Protocol(About about, Handlers handlers)
      : about_(std::move(about)), handlers_(std::move(handlers)) {}

  void OnLine(std::string_view line);
  // A line was longer than kMaxLine, and is dropped.
  void OnTooLong();
  // Nothing happens if the call was cancelled.
  void Answer(CallId call, const ToolAnswer& answer);

 private:
  void OnRequest(const Json& id, const std::string& method, const Json& params);
  void OnNotification(const std::string& method, const Json& params);
  void Initialize(const Json& id, const Json& params);
  void CallTool(const Json& id, const Json& params);
  void Send(const OrderedJson& message);
  void SendResult(const Json& id, OrderedJson result);
  void SendError(const Json& id, int code, const std::string& message);

  About about_;
  Handlers handlers_;
  std::map<CallId, Json> calls_;  // with their ids
  CallId last_call_ = 0;
  bool initialized_ = false;
};

}  // namespace lockstep::cli::mcp

#endif  // LOCKSTEP_CLI_MCP_PROTOCOL_H_
