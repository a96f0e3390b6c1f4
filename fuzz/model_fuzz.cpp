// Damaged GGUF models: opening one and running three tokens through it ends in logits or in Error. The input is a list
// of edits to the head of a small valid file, since random bytes never get as far as the tensors.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "formats/gguf.h"
#include "support/tiny_model.h"

namespace {

using kda::test::TinyGgufOptions;

constexpr size_t kEditBytes = 12;  // position u16, length u8, operation u8, value u64

struct Base {
  std::string bytes;
  size_t head = 0;  // metadata and tensor table
};

std::vector<Base> make_bases() {
  const kda::test::TinyModel model({.vocab = 24,
                                    .hidden = 32,
                                    .n_layers = 3,
                                    .mla_layers = {1},
                                    .kda_heads = 1,
                                    .heads = 1,
                                    .ffn = 32,
                                    .experts = 2,
                                    .experts_used = 1});
  const TinyGgufOptions variants[] = {
      {},
      {.matrix_type = kda::TensorType::kQ8_0,
       .kv_up = TinyGgufOptions::KvUp::kUnsplit,
       .fused_qkv = true,
       .fused_gate_up = true},
      {.matrix_type = kda::TensorType::kQ4_0,
       .conv_dims = 2,
       .decay_dims = 1,
       .raw_decay = true,
       .old_names = true,
       .optional_keys = false,
       .version = 2},
      {.kv_up = TinyGgufOptions::KvUp::kBoth, .length_arrays = true, .bogus_keys = true, .listed_tokens = 24}};
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("kda-model-fuzz-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::vector<Base> out;
  for (const TinyGgufOptions& variant : variants) {
    std::ifstream file(model.write_gguf(folder, variant), std::ios::binary);
    Base base{{std::istreambuf_iterator<char>(file), {}}, 0};
    const auto parsed = kda::GgufFile::parse(std::as_bytes(std::span(base.bytes)), "base");
    base.head = base.bytes.size();
    for (const kda::GgufTensor& t : parsed.tensors()) {
      base.head =
          std::min(base.head, static_cast<size_t>(reinterpret_cast<const char*>(t.bytes.data()) - base.bytes.data()));
    }
    out.push_back(std::move(base));
  }
  std::filesystem::remove_all(folder);
  return out;
}

std::string edited(const Base& base, const uint8_t* data, size_t size) {
  std::string bytes = base.bytes;
  for (; size >= kEditBytes; data += kEditBytes, size -= kEditBytes) {
    const size_t at = (data[0] | static_cast<size_t>(data[1]) << 8) % base.head;
    const size_t n = std::min<size_t>(data[2] % 8 + 1, base.head - at);
    uint64_t old = 0;
    uint64_t value = 0;
    std::memcpy(&old, &bytes[at], n);
    std::memcpy(&value, data + 4, sizeof value);
    switch (data[3] % 4) {
      case 0:
        break;
      case 1:
        value = old + value % 256;
        break;
      case 2:
        value = old - value % 256;
        break;
      default:
        value = old ^ uint64_t { 1 } << value % 64;
        break;
    }
    std::memcpy(&bytes[at], &value, n);
  }
  return bytes;
}

void run(const std::string& path) {
  const auto engine =
      kda::Engine::open(path, {.threads = 1, .batch_tokens = 8}, [](const char*) { return std::string(); });
  if (engine->memory_plan(8).total_anonymous() > 256 << 20) return;
  const auto sequence = engine->new_sequence(8);
  const std::array<int32_t, 3> ids{0, 1, 2};
  sequence->feed(ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Base> bases = make_bases();
  static const int fd = ::memfd_create("model.gguf", 0);
  if (size == 0) return 0;
  const std::string bytes = edited(bases[data[0] % bases.size()], data + 1, size - 1);
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    __builtin_trap();
  try {
    run("/proc/self/fd/" + std::to_string(fd));
  } catch (const kda::Error&) {
  }
  return 0;
}
