// What a file is by its first bytes, so that a mix-up can be named.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace kda {

enum class FileKind {
  kGguf,
  kOldGgml,        // the formats before GGUF
  kSafetensors,    // or what looks like one
  kGitLfsPointer,  // a text of three lines that stands for the file
  kZip,            // PyTorch's .bin and .pt too
  kHtml,           // a web page saved in place of the file
  kZeros,          // space reserved by a download that did not get there
  kOther,
};

/// `bytes` is the whole file; only its beginning is read. Thread-safe.
[[nodiscard]] FileKind find_file_kind(std::span<const std::byte> bytes) noexcept;

/// "a Git LFS pointer, not the file itself: ..."; a phrase that also says what to do. Thread-safe.
[[nodiscard]] std::string_view describe(FileKind kind) noexcept;

/// Text from a file, fit for a message: bytes that are not printable ASCII as \xNN, quoted, cut after 80 characters.
/// Thread-safe.
[[nodiscard]] std::string quote(std::string_view text);

}  // namespace kda
