#include "formats/file_kind.h"

#include <algorithm>
#include <cstdint>

#include "formats/little_endian.h"

namespace kda {

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool looks_like_html(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return false;
  std::string head(text.substr(start, 9));
  std::transform(head.begin(), head.end(), head.begin(), lower);
  return head == "<!doctype" || head.starts_with("<html");
}

}  // namespace

FileKind find_file_kind(std::span<const std::byte> bytes) noexcept {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 512));
  if (text.starts_with("GGUF")) return FileKind::kGguf;
  for (const std::string_view magic : {"lmgg", "fmgg", "tjgg", "algg"}) {  // 'ggml', 'ggmf', 'ggjt', 'ggla' as u32
    if (text.starts_with(magic)) return FileKind::kOldGgml;
  }
  if (text.starts_with("version https://git-lfs")) return FileKind::kGitLfsPointer;
  if (text.starts_with("PK\x03\x04")) return FileKind::kZip;
  if (looks_like_html(text)) return FileKind::kHtml;
  if (text.size() >= 9 && text[8] == '{' && load_le<uint64_t>(bytes.data()) <= bytes.size() - 8) {
    return FileKind::kSafetensors;
  }
  if (text.size() >= 16 && text.find_first_not_of('\0') == std::string_view::npos) return FileKind::kZeros;
  return FileKind::kOther;
}

std::string_view describe(FileKind kind) noexcept {
  switch (kind) {
    case FileKind::kGguf:
      return "a GGUF file";
    case FileKind::kOldGgml:
      return "a model file in a ggml format older than GGUF; convert the original model again";
    case FileKind::kSafetensors:
      return "a safetensors file; give the folder that holds it and config.json";
    case FileKind::kGitLfsPointer:
      return "a Git LFS pointer, not the file itself; run 'git lfs pull' in its folder or download the file";
    case FileKind::kZip:
      return "a zip archive (PyTorch checkpoints are); convert it to safetensors or GGUF";
    case FileKind::kHtml:
      return "a web page saved in place of the file; download the file again";
    case FileKind::kZeros:
      return "zeros only at its start, so its download did not finish; download it again";
    case FileKind::kOther:
      break;
  }
  return "a file of another kind";
}

std::string quote(std::string_view text) {
  constexpr size_t kMaxLength = 80;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "'";
  for (const char byte : text) {
    if (out.size() > kMaxLength) {
      out += "...";
      break;
    }
    const auto c = static_cast<unsigned char>(byte);
    if (c >= 0x20 && c < 0x7F) {
      out += byte;
    } else {
      out += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    }
  }
  return out + "'";
}

}  // namespace kda
