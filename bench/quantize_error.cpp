// Relative error of every encoder, as a table for docs/quantization.md.
//
//   quantize_error [--golden FOLDER] [--peer libggml-base.so] [--type TYPE]
//
// Percent: 100 sqrt(sum v (x - x')^2 / sum v x^2). Sets of 64 rows of 4096 numbers, all from splitmix64: G normal, L
// Laplace, O normal with one number in 200 ten times as large; "experts" are the expert matrices of all checkpoints
// below the folder. v is 1, or in the columns "weighted" a log-normal weight for each column, which the encoder is
// given. With a peer each cell has its error behind ours, in brackets.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numbers>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "formats/safetensors.h"
#include "peer_quantizer.h"
#include "quant/codec.h"

namespace kda {
namespace {

constexpr int64_t kColumns = 4096;

class SplitMix {
 public:
  explicit SplitMix(uint64_t seed) : state_(seed) {}
  double uniform() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
  }
  double normal() {
    const double u1 = uniform();
    const double u2 = uniform();
    return std::sqrt(-2 * std::log(1 - u1)) * std::cos(2 * std::numbers::pi * u2);
  }

 private:
  uint64_t state_;
};

template <typename Next>
std::vector<float> numbers(size_t n, Next next) {
  std::vector<float> x(n);
  for (float& value : x) value = static_cast<float>(next());
  return x;
}

struct Set {
  std::string name;
  std::vector<float> x;  // rows of kColumns
  bool is_weighted;
};

std::vector<float> experts(const std::filesystem::path& golden) {
  std::vector<float> x;
  for (const auto& entry : std::filesystem::directory_iterator(golden)) {
    if (!std::filesystem::exists(entry.path() / "model.safetensors")) continue;
    const SafeTensorsModel model = SafeTensorsModel::open(entry.path());
    for (const auto& [name, tensor] : model.tensors()) {
      if (name.find(".experts.") == std::string::npos || tensor->dtype != "BF16") continue;
      const size_t first = x.size();
      x.resize(first + static_cast<size_t>(tensor->n_elements()));
      dequantize_row(TensorType::kBF16, tensor->bytes.data(), x.data() + first, tensor->n_elements());
    }
  }
  x.resize(x.size() / kColumns * kColumns);
  return x;
}

double percent(TensorType type, const std::vector<std::byte>& bytes, const std::vector<float>& x,
               const std::vector<float>* v) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> back(x.size());
  dequantize_row(type, bytes.data(), back.data(), n);
  double error = 0;
  double power = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double weight = v == nullptr ? 1.0 : (*v)[i % kColumns];
    error += weight * std::pow(double{x[i]} - back[i], 2);
    power += weight * x[i] * x[i];
  }
  return 100 * std::sqrt(error / power);
}

struct Options {
  std::string golden;
  std::string peer;
  std::string type;
};

int run(const Options& options) {
  std::unique_ptr<PeerQuantizer> peer;
  if (!options.peer.empty()) peer = std::make_unique<PeerQuantizer>(options.peer);
  SplitMix g(1), l(2), o(3), v(4);
  const size_t n = 64 * kColumns;
  const std::vector<float> normal = numbers(n, [&] { return 0.02 * g.normal(); });
  const std::vector<float> laplace = numbers(n, [&] {
    const double t = l.uniform() - 0.5;
    return std::copysign(0.02 / std::numbers::sqrt2, t) * -std::log(1 - 2 * std::abs(t));
  });
  const std::vector<float> outliers = numbers(n, [&] {
    const double x = 0.02 * o.normal();
    return o.uniform() < 0.005 ? 10 * x : x;
  });
  const std::vector<float> importance = numbers(kColumns, [&] { return std::exp(v.normal()); });
  std::vector<Set> sets{{"G", normal, false}, {"L", laplace, false}, {"O", outliers, false}};
  if (!options.golden.empty()) sets.push_back({"experts", experts(options.golden), false});
  sets.insert(sets.end(),
              {{"G weighted", normal, true}, {"L weighted", laplace, true}, {"O weighted", outliers, true}});

  std::string head = "| type | bits |";
  std::string rule = "|---|---|";
  for (const Set& set : sets) {
    head += fmt::format(" {} |", set.name);
    rule += "---|";
  }
  fmt::print("{}\n{}\n", head, rule);
  for (uint32_t number = 0; number < kTensorTypeCount; ++number) {
    const TensorTypeInfo* info = find_tensor_type(number);
    if (info == nullptr || !can_quantize(info->type) || info->block_elements == 1) continue;
    if (!options.type.empty() && parse_tensor_type(options.type) != info->type) continue;
    fmt::print("| {} | {:.4g} |", info->name,
               8.0 * static_cast<double>(info->block_bytes) / static_cast<double>(info->block_elements));
    for (const Set& set : sets) {
      const auto rows = static_cast<int64_t>(set.x.size()) / kColumns;
      const int64_t bytes_a_row = row_bytes(info->type, kColumns);
      const float* weights = set.is_weighted ? importance.data() : nullptr;
      std::vector<std::byte> bytes(static_cast<size_t>(rows * bytes_a_row));
      for (int64_t r = 0; r < rows; ++r) {
        quantize_row(info->type, set.x.data() + r * kColumns, bytes.data() + r * bytes_a_row, kColumns, weights);
      }
      const std::vector<float>* judge = set.is_weighted ? &importance : nullptr;
      fmt::print(" {:.4f}", percent(info->type, bytes, set.x, judge));
      if (peer && peer->can_quantize(info->type, set.is_weighted)) {
        peer->quantize(info->type, set.x.data(), bytes.data(), rows, kColumns, weights);
        fmt::print(" ({:.4f})", percent(info->type, bytes, set.x, judge));
      }
      fmt::print(" |");
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace kda

int main(int argc, char** argv) {
  kda::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--golden") options.golden = argv[i + 1];
    if (name == "--peer") options.peer = argv[i + 1];
    if (name == "--type") options.type = argv[i + 1];
  }
  try {
    return kda::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "quantize_error: {}\n", error.what());
    return 1;
  }
}
