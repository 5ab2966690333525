// Result<T>: a value or an Error, for failures that a caller is expected to handle.
//
//   Result<int> port = ParsePort(text);
//   if (!port.ok()) return port.error();
//   Listen(*port);
//
// Errors that cannot happen are fatal (assert); exceptions end at the edge of a thread.
#ifndef LOCKSTEP_BASE_RESULT_H_
#define LOCKSTEP_BASE_RESULT_H_

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace lockstep {

enum class ErrorKind {
  kInvalid,      // the input is wrong; the message says what to write instead
  kNotFound,     // the thing named does not exist
  kConflict,     // it exists already, or is newer than what was sent
  kDenied,       // a key, a permission or a seccomp profile refused
  kUnavailable,  // a peer or a file system did not answer; trying again may help
  kTimeout,      // a deadline passed
  kTooLarge,     // a limit on size or number was exceeded
  kInternal,     // a bug, or a system call that should not fail did
  kBroken,       // this machine itself is at fault: another one may do it
};

// "Invalid", "NotFound", ...
const char* ToString(ErrorKind kind);

// What happened, where, and what to do about it.
struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;

  static Error Invalid(std::string m) { return {ErrorKind::kInvalid, std::move(m)}; }
  static Error NotFound(std::string m) { return {ErrorKind::kNotFound, std::move(m)}; }
  static Error Conflict(std::string m) { return {ErrorKind::kConflict, std::move(m)}; }
  static Error Denied(std::string m) { return {ErrorKind::kDenied, std::move(m)}; }
  static Error Unavailable(std::string m) { return {ErrorKind::kUnavailable, std::move(m)}; }
  static Error Timeout(std::string m) { return {ErrorKind::kTimeout, std::move(m)}; }
  static Error TooLarge(std::string m) { return {ErrorKind::kTooLarge, std::move(m)}; }
  static Error Internal(std::string m) { return {ErrorKind::kInternal, std::move(m)}; }
};

// Internal error with the text of `errno_value` behind `what`.
Error ErrnoError(const std::string& what, int errno_value);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  const Error& error() const {
    assert(!ok());
    return std::get<Error>(state_);
  }
  T& operator*() {
    assert(ok());
    return std::get<T>(state_);
  }
  const T& operator*() const {
    assert(ok());
    return std::get<T>(state_);
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

 private:
  std::variant<T, Error> state_;
};

// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT

  bool ok() const { return ok_; }
  const Error& error() const {
    assert(!ok_);
    return error_;
  }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_RESULT_H_
