#include "tokenizer/byte_pair_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "base/error.h"

namespace kda {
namespace {

// Multiplying by an odd constant and taking the high bits spreads keys that differ in few bits (2^64 / golden ratio).
constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;

// A vocabulary that is made to collide must not take quadratic time to load. Kimi's longest chain has 13.
constexpr int kMaxProbes = 500;

template <typename T>
uint64_t load(const char* p) noexcept {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

}  // namespace

uint64_t BytePairEncoder::key_of(std::string_view bytes) noexcept {
  const char* p = bytes.data();
  const size_t n = bytes.size();
  // With the length, each of these tells all byte strings of that length apart.
  if (n <= 3) {
    if (n == 0) return 0;
    return load<uint8_t>(p) | load<uint8_t>(p + n / 2) << 8 | load<uint8_t>(p + n - 1) << 16;
  }
  if (n <= 8) return load<uint32_t>(p) | load<uint32_t>(p + n - 4) << 32;
  uint64_t hash = n;
  for (size_t i = 0; i + 8 < n; i += 8) hash = std::rotl((hash ^ load<uint64_t>(p + i)) * kMultiplier, 29);
  return std::rotl((hash ^ load<uint64_t>(p + n - 8)) * kMultiplier, 29);
}

size_t BytePairEncoder::home_of(uint64_t key, size_t n_bytes) const noexcept {
  // Twice, since the highest bits of a single product depend little on the low half of the key.
  const uint64_t mixed = (key ^ n_bytes << 56) * kMultiplier;
  return ((mixed ^ mixed >> 32) * kMultiplier) >> shift_;
}

BytePairEncoder::BytePairEncoder(std::span<const std::string> tokens) : tokens_(tokens) {
  const size_t n_slots = std::bit_ceil(std::max<size_t>(tokens.size() * 2, 512));
  slots_.resize(n_slots);
  shift_ = 64 - std::countr_zero(n_slots);
  for (size_t id = 0; id < tokens.size(); ++id) insert(static_cast<int32_t>(id));
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (look_up({&c, 1}) == kNone) {
      fail(ErrorCode::kFormat, "vocabulary: there is no token for the single byte 0x{:02X}, expected all 256", byte);
    }
  }
}

void BytePairEncoder::insert(int32_t id) {
  const std::string& bytes = tokens_[id];
  if (bytes.empty() || bytes.size() > kMaxTokenBytes) {
    fail(ErrorCode::kFormat, "vocabulary: token {} has {} bytes, expected 1 to {}", id, bytes.size(), kMaxTokenBytes);
  }
  max_bytes_ = std::max(max_bytes_, bytes.size());
  const uint64_t key = key_of(bytes);
  size_t i = home_of(key, bytes.size());
  for (int n_probes = 0; slots_[i].id != kNone; ++n_probes, i = (i + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[i];
    if (slot.key == key && slot.n_bytes == bytes.size() && tokens_[slot.id] == bytes) {
      fail(ErrorCode::kFormat, "vocabulary: token {} has the same bytes as token {}", id, slot.id);
    }
    if (n_probes == kMaxProbes) {
      fail(ErrorCode::kFormat, "vocabulary: token {} collides with more than {} others", id, kMaxProbes);
    }
  }
  slots_[i] = {.key = key, .n_bytes = static_cast<uint32_t>(bytes.size()), .id = id};
}

int32_t BytePairEncoder::look_up(std::string_view bytes) const noexcept {
  if (bytes.size() > max_bytes_) return kNone;
  const uint64_t key = key_of(bytes);
  for (size_t i = home_of(key, bytes.size());; i = (i + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[i];
    if (slot.id == kNone) return kNone;
    if (slot.key != key || slot.n_bytes != bytes.size()) continue;
    if (bytes.size() <= 8 || tokens_[slot.id] == bytes) return slot.id;
  }
}

std::optional<int32_t> BytePairEncoder::find(std::string_view bytes) const noexcept {
  const int32_t id = look_up(bytes);
  if (id == kNone) return std::nullopt;
  return id;
}

void BytePairEncoder::encode_piece(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
  const int32_t id = look_up(piece);
  if (id != kNone) {
    out.push_back(id);
  } else if (!piece.empty()) {
    merge(piece, scratch, out);
  }
}

// The parts are a list, linked by the positions of their first bytes. A heap holds (rank << 32 | position) of every
// pair that is a token, lowest rank and then leftmost on top; an entry whose pair has changed since no longer agrees
// with pair_rank and is dropped when it comes up. A pair never gets a former rank back, since parts only grow.
void BytePairEncoder::merge(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
  const auto n = static_cast<uint32_t>(piece.size());
  auto& parts = scratch.parts_;
  auto& heap = scratch.heap_;
  parts.resize(n);
  heap.clear();

  const auto rank_pair = [&](uint32_t begin) {
    const uint32_t middle = parts[begin].end;
    const int32_t rank = middle == n ? kNone : look_up(piece.substr(begin, parts[middle].end - begin));
    parts[begin].pair_rank = rank;
    if (rank != kNone) heap.push_back(uint64_t{static_cast<uint32_t>(rank)} << 32 | begin);
    return rank != kNone;
  };
  for (uint32_t i = 0; i < n; ++i) parts[i] = {i + 1, i - 1, look_up(piece.substr(i, 1)), kNone};
  for (uint32_t i = 0; i < n; ++i) rank_pair(i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  while (!heap.empty()) {
    const uint64_t top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto begin = static_cast<uint32_t>(top);
    const auto rank = static_cast<int32_t>(top >> 32);
    if (parts[begin].pair_rank != rank) continue;

    const uint32_t gone = parts[begin].end;
    parts[begin].end = parts[gone].end;
    parts[begin].id = rank;
    parts[gone].pair_rank = kNone;
    if (parts[begin].end != n) parts[parts[begin].end].previous = begin;
    if (rank_pair(begin)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
    if (begin != 0 && rank_pair(parts[begin].previous)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
  for (uint32_t i = 0; i != n; i = parts[i].end) out.push_back(parts[i].id);
}

}  // namespace kda
