#include "measure/logits_file.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "formats/file_kind.h"
#include "formats/little_endian.h"

namespace kda {

namespace {

constexpr std::string_view kMagic = "KDALOGIT";
constexpr uint32_t kVersion = 1;
constexpr int64_t kHeaderBytes = 24;
constexpr size_t kBufferFloats = size_t{1} << 18;
constexpr int64_t kFloatBytes = sizeof(float);

int64_t ids_bytes(int64_t n_ctx, int64_t n_chunks) { return n_ctx * n_chunks * int64_t{sizeof(int32_t)}; }

/// Fails before the work rather than after it.
void check_room(const std::filesystem::path& path, int64_t bytes) {
  std::error_code error;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (!error && space.available < static_cast<uintmax_t>(bytes)) {
    fail(ErrorCode::kLimit, "{}: the logits take {} bytes, but the disk has room for {}: take fewer chunks",
         path.string(), bytes, space.available);
  }
}

}  // namespace

int64_t LogitsWriter::file_bytes(const TextChunks& chunks, int64_t vocab) noexcept {
  return kHeaderBytes + ids_bytes(chunks.n_ctx, chunks.n_chunks) + chunks.n_scored() * vocab * kFloatBytes;
}

LogitsWriter::LogitsWriter(const std::filesystem::path& path, const TextChunks& chunks, int64_t vocab)
    : file_(path), vocab_(vocab), rows_left_(chunks.n_scored()) {
  check_room(path, file_bytes(chunks, vocab));
  const uint32_t numbers[] = {kVersion, static_cast<uint32_t>(vocab), static_cast<uint32_t>(chunks.n_ctx),
                              static_cast<uint32_t>(chunks.n_chunks)};
  file_.write(std::as_bytes(std::span(kMagic)));
  file_.write(std::as_bytes(std::span(numbers)));
  file_.write(std::as_bytes(std::span(chunks.ids)));
}

LogitsWriter::~LogitsWriter() = default;

void LogitsWriter::add(std::span<const float> logits) {
  KDA_CHECK(static_cast<int64_t>(logits.size()) == vocab_ && rows_left_ > 0);
  --rows_left_;
  buffer_.insert(buffer_.end(), logits.begin(), logits.end());
  if (buffer_.size() >= kBufferFloats) flush();
}

void LogitsWriter::flush() {
  file_.write(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

void LogitsWriter::commit() {
  KDA_CHECK(rows_left_ == 0);
  flush();
  file_.commit();
}

LogitsFile LogitsFile::open(const std::filesystem::path& path) {
  LogitsFile out;
  out.file_ = MappedFile(path);
  const std::string name = path.string();
  const std::span<const std::byte> bytes = out.file_.bytes();
  const auto size = static_cast<int64_t>(bytes.size());
  const std::string_view magic = {reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kMagic.size())};
  if (size < kHeaderBytes || magic != kMagic) {
    fail(ErrorCode::kFormat, "{}: no file of logits: begins with {}, expected '{}' and {} bytes or more", name,
         quote(magic), kMagic, kHeaderBytes);
  }
  const auto number = [&](int64_t i) { return int64_t{load_le<uint32_t>(bytes.data() + kMagic.size() + 4 * i)}; };
  if (number(0) != kVersion) {
    fail(ErrorCode::kUnsupported, "{}: version of the file is {}, expected {}", name, number(0), kVersion);
  }
  out.vocab_ = number(1);
  TextChunks& chunks = out.chunks_;
  chunks.n_ctx = number(2);
  chunks.n_chunks = number(3);
  // Each factor is below 2^32, so compare by dividing what is there: no product can overflow.
  const int64_t chunk_tokens_left = (size - kHeaderBytes) / int64_t{sizeof(int32_t)};
  if (out.vocab_ < 1 || chunks.n_ctx < kMinChunkTokens || chunks.n_chunks < 1 ||
      chunks.n_ctx > chunk_tokens_left / chunks.n_chunks) {
    fail(ErrorCode::kFormat, "{}: {} chunks of {} tokens and {} logits a row do not fit its {} bytes", name,
         chunks.n_chunks, chunks.n_ctx, out.vocab_, size);
  }
  const int64_t rows_at = kHeaderBytes + ids_bytes(chunks.n_ctx, chunks.n_chunks);
  const int64_t row_bytes = out.vocab_ * kFloatBytes;
  if ((size - rows_at) % row_bytes != 0 || (size - rows_at) / row_bytes != chunks.n_scored()) {
    fail(ErrorCode::kFormat, "{}: expected {} rows of {} logits, found {} bytes", name, chunks.n_scored(), out.vocab_,
         size - rows_at);
  }
  chunks.n_text_tokens = chunks.n_ctx * chunks.n_chunks;
  chunks.ids.resize(static_cast<size_t>(chunks.n_text_tokens));
  std::memcpy(chunks.ids.data(), bytes.data() + kHeaderBytes, chunks.ids.size() * sizeof(int32_t));
  for (size_t i = 0; i < chunks.ids.size(); ++i) {
    if (chunks.ids[i] < 0 || chunks.ids[i] >= out.vocab_) {
      fail(ErrorCode::kFormat, "{}: token {} is {}, expected 0 to {}", name, i, chunks.ids[i], out.vocab_ - 1);
    }
  }
  out.rows_ = reinterpret_cast<const float*>(bytes.data() + rows_at);  // mappings begin at a page, rows at 4 * n
  return out;
}

std::span<const float> LogitsFile::row(int64_t i) const noexcept {
  return {rows_ + i * vocab_, static_cast<size_t>(vocab_)};
}

}  // namespace kda
