// Importance matrices: how much each input column of a weight matrix matters, as quantisers want to know it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kda {

/// For tensors by their GGUF names: the mean over tokens of the squared input that each column multiplied. Stacked
/// tensors (experts, heads) have a row a matrix. A value type; const members are thread-safe.
class ImportanceMatrix {
 public:
  /// A stacked tensor of which some matrices saw no data.
  struct Gap {
    std::string tensor;
    std::vector<int64_t> matrices;  // the ones without data, rising
    int64_t n_matrices = 0;
  };

  /// Reads the GGUF form (general.type "imatrix"; tensors NAME.in_sum2 and NAME.counts) or the older .dat form.
  /// Throws Error(kNotFound | kIo | kFormat).
  static ImportanceMatrix read(const std::filesystem::path& path);
  /// As read, from bytes; `name` is used in messages. Allocates no more than a small multiple of the bytes.
  static ImportanceMatrix parse(std::span<const std::byte> bytes, std::string name);
  /// Writes the GGUF form: to a temporary name, then renamed. Throws Error(kIo), or Error(kUsage) for names that are
  /// too long for GGUF.
  void write(const std::filesystem::path& path) const;

  /// What columns [n_columns] of matrix `expert` (0 for plain tensors; the head, for attn_k_b and attn_v_b) of a tensor
  /// weigh; all 1 for a matrix that saw no data. Empty when nothing is held of the tensor. The view lives as long as
  /// this. Throws Error(kFormat) when the tensor is held with another width or fewer matrices.
  [[nodiscard]] std::span<const float> of(std::string_view tensor, int64_t expert, int64_t n_columns) const;

  /// Tensors of which some, or all, matrices saw no data.
  [[nodiscard]] std::vector<Gap> gaps() const;
  [[nodiscard]] size_t n_tensors() const noexcept { return tensors_.size(); }
  /// Names of the tensors, in order.
  [[nodiscard]] std::vector<std::string_view> tensor_names() const;

  /// Sets or replaces a tensor: sums of squares [matrices, n_columns] over counts [matrices] rows of input.
  /// Throws Error(kUsage) for sizes that do not fit each other, and for sums that are negative or not finite.
  void set(std::string_view tensor, int64_t n_columns, std::span<const double> sums, std::span<const int64_t> counts);

  // What the data was; empty and 0 where a file does not tell.
  std::vector<std::string> datasets;
  int64_t n_chunks = 0;
  int64_t chunk_tokens = 0;

 private:
  struct Tensor {
    Tensor(size_t n_values, size_t n_matrices) : means(n_values, 1.0F), counts(n_matrices) {}
    std::vector<float> means;   // [counts.size(), columns]; 1 where the count is 0
    std::vector<float> counts;  // rows of input a matrix
  };
  void parse_gguf(std::span<const std::byte> bytes);
  void parse_dat(std::span<const std::byte> bytes);

  std::string name_ = "importance matrix";  // in messages
  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace kda
