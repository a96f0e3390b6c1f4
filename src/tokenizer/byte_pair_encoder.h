// Byte-pair encoding by rank: the id of a token is its rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kda {

/// Longest token, in bytes, that a vocabulary may hold; Kimi's longest has 256. Bounds the time of one look-up.
inline constexpr size_t kMaxTokenBytes = 1024;

/// Immutable after construction; all members are thread-safe.
class BytePairEncoder {
 public:
  /// Buffers of encode_piece, so that pieces of one text share them. Not to be shared between threads.
  class Scratch {
    friend class BytePairEncoder;
    struct Part {
      uint32_t end;       // where the next part begins
      uint32_t previous;  // where the part before begins
      int32_t id;         // of this part
      int32_t pair_rank;  // of this part and the next as one token; -1: no such token, or this part is gone
    };
    std::vector<Part> parts_;  // by first byte
    std::vector<uint64_t> heap_;
  };

  /// tokens by rank; the caller keeps them alive and in place. Throws Error(kFormat) when one is empty, too long or
  /// there twice, or a single byte is missing.
  explicit BytePairEncoder(std::span<const std::string> tokens);

  /// Appends the ids of one piece of less than 2^32 bytes: the token that it is, or what is left when the adjacent pair
  /// of lowest rank (the leftmost of equals) has been merged again and again. Time n log n in its length.
  void encode_piece(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const;

  /// The token with exactly these bytes.
  [[nodiscard]] std::optional<int32_t> find(std::string_view bytes) const noexcept;

 private:
  // Up to 8 bytes are kept whole, so that most look-ups touch nothing but a slot.
  struct Slot {
    uint64_t key = 0;  // the bytes, or a hash of more than 8
    uint32_t n_bytes = 0;
    int32_t id = kNone;
  };
  static constexpr int32_t kNone = -1;

  static uint64_t key_of(std::string_view bytes) noexcept;
  [[nodiscard]] size_t home_of(uint64_t key, size_t n_bytes) const noexcept;
  void insert(int32_t id);
  [[nodiscard]] int32_t look_up(std::string_view bytes) const noexcept;
  void merge(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const;

  std::span<const std::string> tokens_;
  std::vector<Slot> slots_;  // open addressing, linear probing; a power of two, at most half full
  int shift_ = 0;            // 64 - log2(slots_.size())
  size_t max_bytes_ = 0;     // of a token
};

}  // namespace kda
