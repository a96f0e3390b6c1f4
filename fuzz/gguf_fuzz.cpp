// GgufFile::parse on any bytes: it returns or throws Error, never reads outside them, and what it returns can be read.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "formats/gguf.h"

namespace {

/// Looks at everything that a parsed file offers.
void read_all(const kda::GgufFile& file) {
  for (const auto& [key, value] : file.metadata()) {
    const auto try_get = [](auto&& get) {
      try {
        (void)get();
      } catch (const kda::Error&) {  // a value of another kind
      }
    };
    try_get([&, name = key] { return file.get_int(name); });
    try_get([&, name = key] { return file.get_float(name); });
    try_get([&, name = key] { return file.get_bool(name); });
    try_get([&, name = key] { return file.get_string(name); });
    try_get([&, name = key] { return file.get_ints(name); });
    try_get([&, name = key] { return file.get_floats(name); });
    try_get([&, name = key] {
      const std::vector<std::string_view> texts = file.get_strings(name).value();
      size_t n = 0;
      for (const std::string_view text : texts) {
        for (const char c : text) n += c == ' ' ? 1 : 0;
      }
      return n;
    });
  }
  for (const kda::GgufTensor& tensor : file.tensors()) {
    volatile std::byte last = tensor.bytes.back();
    (void)last;
    if (file.find_tensor(tensor.name) != &tensor) __builtin_trap();
  }
}

/// What was read can be written, and reads the same.
void round_trip(const kda::GgufFile& file) {
  kda::GgufWriter writer;
  writer.set_version(file.version());
  for (const auto& [key, value] : file.metadata()) writer.add_value(key, value);
  for (const kda::GgufTensor& tensor : file.tensors()) {
    writer.add_tensor(tensor.name, tensor.type, std::span(tensor.ne, static_cast<size_t>(tensor.n_dims)), tensor.bytes);
  }
  const auto bytes = writer.finish();
  const kda::GgufFile again = kda::GgufFile::parse(bytes, "again");
  if (again.metadata().size() != file.metadata().size() || again.tensors().size() != file.tensors().size() ||
      again.alignment() != file.alignment()) {
    __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto file = kda::GgufFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    read_all(file);
    round_trip(file);
  } catch (const kda::Error&) {
  }
  return 0;
}
