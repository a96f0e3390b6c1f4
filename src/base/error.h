// Errors of the library. Thrown on cold paths (open, parse, convert, configure), caught at a boundary.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace kda {

enum class ErrorCode {
  kUsage,        // the caller asked for something that makes no sense: exit status 2
  kNotFound,     // a file, folder or name is not there
  kIo,           // the operating system refused
  kFormat,       // bytes that break the rules of their format
  kUnsupported,  // well formed, but asks for what this program does not do
  kLimit,        // more memory, context or count than there is
  kBusy,         // try again later
  kInterrupted,  // the user stopped it
};

/// One sentence that names the subject, what was expected and what was found.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// Throws Error with a formatted message: fail(ErrorCode::kFormat, "gguf: {}: version is {}, expected 2 or 3", ...).
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Prints the broken invariant and aborts. For mistakes of our own only: no file, prompt or request may reach one.
[[noreturn]] void check_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace kda

#define KDA_CHECK(condition) ((condition) ? void(0) : ::kda::check_failed(#condition, __FILE__, __LINE__))
