#include "convert/importance_matrix.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/file_kind.h"
#include "formats/gguf.h"
#include "formats/little_endian.h"

namespace kda {

namespace {

constexpr std::string_view kTypeKey = "general.type";
constexpr std::string_view kType = "imatrix";
constexpr std::string_view kDatasetsKey = "imatrix.datasets";
constexpr std::string_view kChunkCountKey = "imatrix.chunk_count";
constexpr std::string_view kChunkSizeKey = "imatrix.chunk_size";
constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";

bool is_weight(double x) { return std::isfinite(x) && x >= 0; }

/// Numbers of a .dat file, each checked to lie inside it.
class DatReader {
 public:
  DatReader(std::span<const std::byte> bytes, const std::string& name) : rest_(bytes), name_(name) {}

  [[nodiscard]] bool at_end() const noexcept { return rest_.empty(); }

  /// A count of things that take at least `least_bytes` each.
  [[nodiscard]] size_t count(std::string_view what, size_t least_bytes) {
    const int32_t n = load_le<int32_t>(take(what, sizeof n).data());
    if (n < 0 || static_cast<size_t>(n) > rest_.size() / least_bytes) {
      fail(ErrorCode::kFormat, "{}: no importance matrix: {} is {}, expected 0 to {} by what is left of the file",
           name_, what, n, rest_.size() / least_bytes);
    }
    return static_cast<size_t>(n);
  }

  [[nodiscard]] std::span<const std::byte> take(std::string_view what, size_t n) {
    if (n > rest_.size()) {
      fail(ErrorCode::kFormat, "{}: the file ends in {}: expected {} bytes, found {}", name_, what, n, rest_.size());
    }
    const auto taken = rest_.first(n);
    rest_ = rest_.subspan(n);
    return taken;
  }

  [[nodiscard]] std::string text(std::string_view what) {
    const auto bytes = take(what, count(what, 1));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> rest_;
  const std::string& name_;
};

std::span<const std::byte> floats_of(const GgufTensor& tensor, const std::string& file) {
  if (tensor.type != TensorType::kF32) {
    fail(ErrorCode::kFormat, "{}: tensor {}: type is {}, expected F32", file, quote(tensor.name),
         type_info(tensor.type).name);
  }
  return tensor.bytes;
}

}  // namespace

ImportanceMatrix ImportanceMatrix::read(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse(file.bytes(), path.string());
}

ImportanceMatrix ImportanceMatrix::parse(std::span<const std::byte> bytes, std::string name) {
  ImportanceMatrix out;
  out.name_ = std::move(name);
  constexpr std::string_view kMagic = "GGUF";
  const std::string_view head = {reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kMagic.size())};
  if (head == kMagic) {
    out.parse_gguf(bytes);
  } else {
    out.parse_dat(bytes);
  }
  if (out.tensors_.empty()) fail(ErrorCode::kFormat, "{}: holds no importance of any tensor", out.name_);
  return out;
}

void ImportanceMatrix::parse_gguf(std::span<const std::byte> bytes) {
  const GgufFile file = GgufFile::parse(bytes, name_);
  if (const auto type = file.get_string(kTypeKey); type && *type != kType) {
    fail(ErrorCode::kFormat, "{}: {} is {}, expected '{}'", name_, kTypeKey, quote(*type), kType);
  }
  for (const std::string_view text : file.get_strings(kDatasetsKey).value_or(std::vector<std::string_view>{})) {
    datasets.emplace_back(text);
  }
  n_chunks = std::max<int64_t>(0, file.get_int(kChunkCountKey).value_or(0));
  chunk_tokens = std::max<int64_t>(0, file.get_int(kChunkSizeKey).value_or(0));

  for (const GgufTensor& sums : file.tensors()) {
    if (!sums.name.ends_with(kSums)) continue;
    const std::string_view tensor = sums.name.substr(0, sums.name.size() - kSums.size());
    const GgufTensor* counts = file.find_tensor(std::string(tensor) + std::string(kCounts));
    if (counts == nullptr) fail(ErrorCode::kFormat, "{}: {} has no {}{}", name_, quote(sums.name), tensor, kCounts);
    const auto sum_bytes = floats_of(sums, name_);
    const auto count_bytes = floats_of(*counts, name_);
    const auto n_values = static_cast<size_t>(sums.n_elements());
    const auto n_matrices = static_cast<size_t>(counts->n_elements());
    if (n_matrices == 0 || n_values == 0 || n_values % n_matrices != 0) {
      fail(ErrorCode::kFormat, "{}: {}: {} sums for {} counts, expected as many for each", name_, quote(tensor),
           n_values, n_matrices);
    }
    const size_t n_columns = n_values / n_matrices;
    Tensor out(n_values, n_matrices);
    for (size_t m = 0; m < n_matrices; ++m) {
      const auto count = load_le<float>(count_bytes.data() + m * sizeof(float));
      if (!is_weight(count)) {
        fail(ErrorCode::kFormat, "{}: {}: count {} is {}, expected a number from 0", name_, quote(tensor), m, count);
      }
      out.counts[m] = count;
      for (size_t c = m * n_columns; c < (m + 1) * n_columns; ++c) {
        const auto sum = load_le<float>(sum_bytes.data() + c * sizeof(float));
        const float mean = count > 0 ? sum / count : 1;
        if (!is_weight(sum) || !is_weight(mean)) {
          fail(ErrorCode::kFormat, "{}: {}: sum {} is {}, expected a finite number from 0", name_, quote(tensor), c,
               sum);
        }
        out.means[c] = mean;
      }
    }
    tensors_.emplace(tensor, std::move(out));
  }
}

// int32 entries; an entry: int32 length, name, int32 chunks, int32 values, float means times chunks [values]. Then, in
// files that are not too old: int32 chunks of the last entry, int32 length, name of the text.
void ImportanceMatrix::parse_dat(std::span<const std::byte> bytes) {
  DatReader in(bytes, name_);
  const size_t n_entries = in.count("the number of entries", 3 * sizeof(int32_t));
  for (size_t i = 0; i < n_entries; ++i) {
    const std::string tensor = in.text("a tensor's name");
    if (tensor.empty() || tensors_.contains(tensor)) {
      fail(ErrorCode::kFormat, "{}: entry {} is named {}, expected a name of its own", name_, i, quote(tensor));
    }
    const int32_t chunks = load_le<int32_t>(in.take("the chunks of an entry", sizeof(int32_t)).data());
    const size_t n_values = in.count("the values of an entry", sizeof(float));
    if (chunks < 0 || n_values == 0) {
      fail(ErrorCode::kFormat, "{}: {}: {} values from {} chunks, expected some", name_, quote(tensor), n_values,
           chunks);
    }
    const auto values = in.take("the values of an entry", n_values * sizeof(float));
    Tensor out(n_values, 1);
    out.counts[0] = static_cast<float>(chunks);
    for (size_t c = 0; chunks > 0 && c < n_values; ++c) {
      const float mean = load_le<float>(values.data() + c * sizeof(float)) / out.counts[0];
      if (!is_weight(mean)) {
        fail(ErrorCode::kFormat, "{}: {}: value {} is {}, expected a finite number from 0", name_, quote(tensor), c,
             mean);
      }
      out.means[c] = mean;
    }
    tensors_.emplace(tensor, std::move(out));
  }
  if (in.at_end()) return;
  n_chunks = std::max(0, load_le<int32_t>(in.take("the number of chunks", sizeof(int32_t)).data()));
  if (!in.at_end()) datasets.push_back(in.text("the name of the text"));
}

void ImportanceMatrix::write(const std::filesystem::path& path) const {
  GgufWriter out;
  out.add_string(kTypeKey, kType);
  out.add_string_array(kDatasetsKey, datasets);
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  out.add_uint32(kChunkCountKey, static_cast<uint32_t>(std::clamp<int64_t>(n_chunks, 0, kMost)));
  out.add_uint32(kChunkSizeKey, static_cast<uint32_t>(std::clamp<int64_t>(chunk_tokens, 0, kMost)));
  std::deque<std::vector<float>> sums;  // must live until the file is written
  for (const auto& [name, tensor] : tensors_) {
    const size_t n_matrices = tensor.counts.size();
    const size_t n_columns = tensor.means.size() / n_matrices;
    std::vector<float>& sum = sums.emplace_back(tensor.means.size());
    for (size_t c = 0; c < sum.size(); ++c) sum[c] = tensor.means[c] * tensor.counts[c / n_columns];
    const int64_t sum_ne[] = {static_cast<int64_t>(n_columns), static_cast<int64_t>(n_matrices)};
    const int64_t count_ne[] = {1, static_cast<int64_t>(n_matrices)};
    out.add_tensor(name + std::string(kSums), TensorType::kF32, sum_ne, std::as_bytes(std::span(sum)));
    out.add_tensor(name + std::string(kCounts), TensorType::kF32, count_ne, std::as_bytes(std::span(tensor.counts)));
  }
  out.write(path);
}

std::span<const float> ImportanceMatrix::of(std::string_view tensor, int64_t expert, int64_t n_columns) const {
  const auto found = tensors_.find(tensor);
  if (found == tensors_.end()) return {};
  const Tensor& t = found->second;
  const auto n_values = static_cast<int64_t>(t.means.size());
  const auto n_matrices = static_cast<int64_t>(t.counts.size());
  // Files that do not say how many matrices there are (one count for all) are cut by the width that is asked for.
  const bool fits = n_columns > 0 && (n_matrices == 1 ? n_values % n_columns == 0 : n_values == n_matrices * n_columns);
  if (!fits || expert < 0 || expert >= n_values / n_columns) {
    fail(ErrorCode::kFormat, "{}: {}: holds {} values of {} columns, expected matrix {} with {} columns", name_,
         quote(tensor), n_values, n_values / n_matrices, expert, n_columns);
  }
  return std::span(t.means).subspan(static_cast<size_t>(expert * n_columns), static_cast<size_t>(n_columns));
}

std::vector<ImportanceMatrix::Gap> ImportanceMatrix::gaps() const {
  std::vector<Gap> out;
  for (const auto& [name, tensor] : tensors_) {
    Gap gap{name, {}, static_cast<int64_t>(tensor.counts.size())};
    for (size_t m = 0; m < tensor.counts.size(); ++m) {
      if (tensor.counts[m] == 0) gap.matrices.push_back(static_cast<int64_t>(m));
    }
    if (!gap.matrices.empty()) out.push_back(std::move(gap));
  }
  return out;
}

std::vector<std::string_view> ImportanceMatrix::tensor_names() const {
  std::vector<std::string_view> out;
  for (const auto& [name, tensor] : tensors_) out.push_back(name);
  return out;
}

void ImportanceMatrix::set(std::string_view tensor, int64_t n_columns, std::span<const double> sums,
                           std::span<const int64_t> counts) {
  if (n_columns < 1 || counts.empty() || sums.size() != counts.size() * static_cast<size_t>(n_columns)) {
    fail(ErrorCode::kUsage, "{}: {}: {} sums for {} matrices of {} columns, expected one a column", name_,
         quote(tensor), sums.size(), counts.size(), n_columns);
  }
  Tensor out(sums.size(), counts.size());
  for (size_t m = 0; m < counts.size(); ++m) {
    out.counts[m] = static_cast<float>(counts[m]);
    if (counts[m] == 0) continue;
    for (size_t c = m * static_cast<size_t>(n_columns); c < (m + 1) * static_cast<size_t>(n_columns); ++c) {
      const auto mean = static_cast<float>(sums[c] / static_cast<double>(counts[m]));
      if (counts[m] < 0 || !is_weight(mean) || !is_weight(mean * out.counts[m])) {
        fail(ErrorCode::kUsage, "{}: {}: sum {} over {} rows is {}, expected a finite number from 0", name_,
             quote(tensor), c, counts[m], sums[c]);
      }
      out.means[c] = mean;
    }
  }
  tensors_.insert_or_assign(std::string(tensor), std::move(out));
}

}  // namespace kda
