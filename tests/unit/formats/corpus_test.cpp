// Replays the inputs of the fuzz targets: each is read, or refused with an Error.
#include <gtest/gtest.h>

#include <functional>

#include "formats/gguf.h"
#include "formats/json.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "unit/formats/support.h"

namespace kda {
namespace {

using Bytes = std::span<const std::byte>;

void replay(const std::string& folder, const std::function<void(Bytes)>& read) {
  const std::filesystem::path path = std::filesystem::path(KDA_SOURCE_DIR) / "fuzz" / "corpus" / folder;
  int n_read = 0;
  int n_refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    const Bytes view = std::as_bytes(std::span(text));
    const std::vector<std::byte> exact(view.begin(), view.end());
    try {
      read(exact);
      ++n_read;
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()), "");
      ++n_refused;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "expected Error, found " << error.what();
    }
  }
  EXPECT_GT(n_read, 0);
  EXPECT_GT(n_refused, 0);
}

TEST(Corpus, Gguf) {
  replay("gguf", [](Bytes bytes) { (void)GgufFile::parse(bytes, "corpus"); });
}

TEST(Corpus, SafeTensors) {
  replay("safetensors", [](Bytes bytes) { (void)SafeTensorsFile::parse(bytes, "corpus"); });
}

TEST(Corpus, Json) {
  replay("json", [](Bytes bytes) { (void)parse_json(test::as_text(bytes), "corpus"); });
}

TEST(Corpus, Npy) {
  replay("npy", [](Bytes bytes) { (void)parse_npy_ints(bytes, "corpus"); });
}

}  // namespace
}  // namespace kda
