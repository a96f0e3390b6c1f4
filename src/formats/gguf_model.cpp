// A GGUF file or a split set of them: which parts there are and whether they belong together.
#include <set>
#include <system_error>

#include "base/error.h"
#include "formats/file_kind.h"
#include "formats/gguf.h"
#include "formats/shard_name.h"

namespace kda {

namespace {

constexpr std::string_view kSplitNo = "split.no";
constexpr std::string_view kSplitCount = "split.count";
constexpr std::string_view kSplitTensorsCount = "split.tensors.count";
constexpr int64_t kMaxParts = 65535;  // split.count is a UINT16 in the files of llama.cpp's splitter

int64_t read_split_no(const GgufFile& file) {
  const std::optional<int64_t> number = file.get_int(kSplitNo);
  if (!number)
    fail(ErrorCode::kFormat, "gguf: {}: expected key '{}' in a part of a split set, found none", file.name(), kSplitNo);
  return *number;
}

/// Part `index` must say that it is that, and agree about how many there are.
void check_part(const GgufFile& file, int64_t index, int64_t count) {
  if (const int64_t number = read_split_no(file); number != index) {
    fail(ErrorCode::kFormat,
         "gguf: {}: part {} of {} by its name, expected {} = {}, found {}; the parts were renamed or mixed up",
         file.name(), index + 1, count, kSplitNo, index, number);
  }
  if (const auto stated = file.get_int(kSplitCount); stated && *stated != count) {
    fail(ErrorCode::kFormat,
         "gguf: {}: expected {} = {} as in the first part, found {}; the parts are of different sets", file.name(),
         kSplitCount, count, *stated);
  }
}

void check_tensors(std::span<const GgufFile> parts) {
  std::set<std::string_view> names;
  for (const GgufFile& part : parts) {
    for (const GgufTensor& tensor : part.tensors()) {
      if (names.insert(tensor.name).second) continue;
      fail(ErrorCode::kFormat, "gguf: {}: tensor {} is in an earlier part too, expected it once", part.name(),
           quote(tensor.name));
    }
  }
  const auto expected = parts.front().get_int(kSplitTensorsCount);
  if (expected && *expected != static_cast<int64_t>(names.size())) {
    fail(ErrorCode::kFormat, "gguf: {}: expected {} tensors in all parts ({}), found {}; a part is of another set",
         parts.front().name(), *expected, kSplitTensorsCount, names.size());
  }
}

}  // namespace

GgufModel GgufModel::open(const std::filesystem::path& path) {
  GgufModel model;
  const auto add_part = [&](const std::filesystem::path& part) {
    model.files_.emplace_back(part);
    model.parts_.push_back(GgufFile::parse(model.files_.back().bytes(), part.string()));
  };
  add_part(path);
  const int64_t count = model.main().get_int(kSplitCount).value_or(0);
  if (count == 0 || count == 1) return model;
  if (count < 0 || count > kMaxParts) {
    fail(ErrorCode::kFormat, "gguf: {}: expected {} of 0 to {}, found {}", path.string(), kSplitCount, kMaxParts,
         count);
  }

  const int64_t opened = read_split_no(model.main());
  const auto shard = parse_shard_name(path.filename().string());
  if (!shard || shard->count != count || shard->number != opened + 1) {
    fail(
        ErrorCode::kFormat,
        "gguf: {}: the file says it is part {} of {}, expected a name that ends in '{}' so that the other parts can be "
        "found; give it its original name",
        path.string(), opened + 1, count,
        format_shard_name({"", static_cast<int>(opened + 1), static_cast<int>(count)}));
  }
  if (opened != 0) {
    model.parts_.clear();
    model.files_.clear();
  }
  for (int number = static_cast<int>(model.parts_.size()) + 1; number <= count; ++number) {
    const auto part = path.parent_path() / format_shard_name({shard->prefix, number, static_cast<int>(count)});
    if (std::error_code ignored; !std::filesystem::exists(part, ignored)) {
      fail(ErrorCode::kNotFound, "gguf: {}: part {} of {} is missing; all parts must lie in one folder", part.string(),
           number, count);
    }
    add_part(part);
    check_part(model.parts_.back(), number - 1, count);
  }
  check_tensors(model.parts_);
  return model;
}

const GgufTensor* GgufModel::find_tensor(std::string_view tensor) const noexcept {
  for (const GgufFile& part : parts_) {
    if (const GgufTensor* found = part.find_tensor(tensor)) return found;
  }
  return nullptr;
}

}  // namespace kda
