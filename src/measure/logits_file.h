// The logits of a model over a text, on disk: what --save-logits writes and --kl-divergence compares with.
//
// Little-endian, without gaps:
//   magic    8 bytes "KDALOGIT"
//   version  u32, 1
//   vocab    u32, logits a row
//   n_ctx    u32, tokens a chunk, at least 8
//   n_chunks u32, at least 1
//   ids      i32 [n_chunks, n_ctx], the tokens as they were fed
//   logits   f32 [n_chunks, n_ctx - 1 - n_ctx / 2, vocab]: of each chunk those after the tokens n_ctx / 2 to n_ctx - 2
//
// Whole floats, so that a model compared with itself differs by nothing: 4 * vocab bytes a scored token.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/mapped_file.h"
#include "formats/atomic_file.h"
#include "measure/text_chunks.h"

namespace kda {

/// Writes row by row; the file appears under its name with commit(). One thread at a time.
class LogitsWriter {
 public:
  /// Throws Error(kIo) when the file cannot be made, Error(kLimit) with both numbers when the disk has not the room.
  LogitsWriter(const std::filesystem::path& path, const TextChunks& chunks, int64_t vocab);
  ~LogitsWriter();

  /// Size of such a file.
  [[nodiscard]] static int64_t file_bytes(const TextChunks& chunks, int64_t vocab) noexcept;

  /// The next row [vocab], in the order of the text. Throws Error(kIo).
  void add(std::span<const float> logits);
  /// All rows must have been added. Throws Error(kIo).
  void commit();

 private:
  void flush();

  AtomicFile file_;
  std::vector<float> buffer_;
  int64_t vocab_, rows_left_;
};

/// A mapped logits file. Immutable; rows stay readable as long as it lives.
class LogitsFile {
 public:
  /// Checks the header, the size and the ids. Throws Error(kNotFound | kIo | kFormat | kUnsupported).
  static LogitsFile open(const std::filesystem::path& path);

  [[nodiscard]] int64_t vocab() const noexcept { return vocab_; }
  /// The text; n_text_tokens counts the whole chunks.
  [[nodiscard]] const TextChunks& chunks() const noexcept { return chunks_; }
  /// Row i of n_scored() [vocab], as it lies in the file: any floats.
  [[nodiscard]] std::span<const float> row(int64_t i) const noexcept;

 private:
  MappedFile file_;
  int64_t vocab_ = 0;
  const float* rows_ = nullptr;
  TextChunks chunks_;
};

}  // namespace kda
