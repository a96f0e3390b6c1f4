// A GGUF file, or a split set, that is written tensor by tensor and appears only when it is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/xxhash64.h"
#include "formats/gguf.h"

namespace kda {

/// One file of the set.
struct GgufOutputPart {
  std::filesystem::path path;         // the final name
  GgufWriter head;                    // its metadata and the declared tensors
  std::vector<int64_t> tensor_bytes;  // of the declared tensors, in order
};

/// While at work the parts are called PATH.partial, and PATH.partial.log of the first part notes the checksum of each
/// finished tensor, so that an interrupted run can be taken up again. One thread at a time; a second process that
/// writes to the same names is refused.
class GgufOutput {
 public:
  struct Options {
    /// What the bytes depend on besides the heads: sources, their sizes and times, program version. Resuming asks for
    /// the same.
    std::string identity;
    bool resume = false;
    /// While resuming: gets bytes found good and those of all tensors, and stops the reading with false.
    std::function<bool(int64_t, int64_t)> progress = [](int64_t, int64_t) { return true; };
  };

  /// Opens the first part. With `resume` reads what an earlier run left, checks it against its checksums and goes on
  /// behind the last whole tensor. Throws Error(kIo) when a name cannot be written to or the disk has no room for all,
  /// Error(kUsage) when what is there was begun with other input or options, Error(kInterrupted); then what was there
  /// stays.
  GgufOutput(std::vector<GgufOutputPart> parts, const Options& options);
  /// Leaves the unfinished files for another run to resume when a tensor is finished and discard() was not called.
  ~GgufOutput();
  GgufOutput(const GgufOutput&) = delete;
  GgufOutput& operator=(const GgufOutput&) = delete;

  /// Tensors, counted over all parts, that are there from an earlier run.
  [[nodiscard]] size_t n_resumed() const noexcept { return n_resumed_; }

  /// Appends to the tensor at hand. Throws Error(kIo).
  void write(std::span<const std::byte> bytes);
  /// The tensor at hand has all its bytes. Throws Error(kIo).
  void end_tensor();

  /// Reads all parts back from the disk and compares every tensor with its checksum; `progress` gets bytes done and to
  /// do and stops it with false. All tensors must have ended. Throws Error(kIo) naming the first tensor that differs,
  /// or Error(kInterrupted).
  void check(const std::function<bool(int64_t, int64_t)>& progress);

  /// Gives the parts their names. Throws Error(kIo).
  void commit();

  /// Removes the unfinished files.
  void discard() noexcept;

  /// True when the destructor would leave files to resume from.
  [[nodiscard]] bool can_resume() const noexcept { return open_ && !checksums_.empty(); }

 private:
  [[nodiscard]] std::filesystem::path partial(size_t part) const;
  [[nodiscard]] std::filesystem::path log_path() const;
  [[nodiscard]] std::string first_log_line(const std::string& identity) const;
  [[nodiscard]] int64_t tensor_end(size_t part, size_t tensor) const;  // offset behind its padding
  void lock();
  /// The number of whole tensors that an earlier run left.
  size_t find_resumable(const std::string& first_line, const std::function<bool(int64_t, int64_t)>& progress);
  [[nodiscard]] int64_t total_bytes() const noexcept;  // of all tensors
  void start_part(size_t part, int64_t keep_bytes);
  void finish_part();
  void append(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) const;

  std::vector<GgufOutputPart> parts_;
  std::vector<std::vector<std::byte>> heads_;
  std::vector<uint64_t> checksums_;  // of the finished tensors over all parts
  size_t part_ = 0;                  // at hand
  size_t tensor_ = 0;                // at hand, in the part
  int64_t written_ = 0;              // bytes of the tensor at hand
  XxHash64 hash_;
  size_t n_resumed_ = 0;
  int fd_ = -1;
  int log_fd_ = -1;  // holds the lock
  bool open_ = false;
};

}  // namespace kda
