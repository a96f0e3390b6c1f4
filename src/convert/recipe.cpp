#include "convert/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "quant/codec.h"

namespace kda {

namespace {

using T = TensorType;
using Id = TensorId;

bool is_expert_stack(const PlannedTensor& tensor) noexcept { return tensor.ne.size() > 2 && tensor.ne[2] > 1; }

// ---- llama.cpp's choices: model-spec 5.5, and what its quantiser was seen to do with models of 8 and of 16 experts
// ----

/// The i-th of n tensors gets more bits: the first and the last eighth, and every third between.
bool more_bits(int64_t i, int64_t n) noexcept { return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2; }

bool is_value(Id id) noexcept { return id == Id::kKdaV || id == Id::kKdaQkv || id == Id::kMlaKvUp; }
bool is_attention_output(Id id) noexcept { return id == Id::kKdaOutput || id == Id::kMlaOutput; }
bool is_down(Id id) noexcept { return id == Id::kDenseDown || id == Id::kExpertDown || id == Id::kSharedDown; }

/// What the choices below depend on besides the tensor.
struct LlamaCounts {
  int64_t n_values = 0;
  int64_t n_layers = 0;
  bool eight_experts = false;  // models of 8 experts have choices of their own
};

LlamaCounts count(const std::vector<PlannedTensor>& tensors) {
  LlamaCounts counts;
  for (const PlannedTensor& tensor : tensors) {
    if (tensor.spec == nullptr) continue;
    counts.n_values += is_value(tensor.spec->id) ? 1 : 0;
    counts.n_layers = std::max(counts.n_layers, tensor.layer + 1);
    if (tensor.spec->id == Id::kRouter && tensor.ne.size() > 1) counts.eight_experts = tensor.ne[1] == 8;
  }
  return counts;
}

/// Of the i-th value projection.
T llama_value_type(const QuantPreset& preset, int64_t i, const LlamaCounts& counts) noexcept {
  if (counts.eight_experts) return T::kQ8_0;
  const std::string_view name = preset.name;
  if (name == "Q5_K_M" || name == "Q4_K_M") return more_bits(i, counts.n_values) ? T::kQ6_K : preset.base;
  if (name == "Q4_K_S") return i < 4 ? T::kQ5_K : preset.base;
  if (name == "Q3_K_L") return T::kQ5_K;
  if (name == "Q3_K_M") return i < 2 ? T::kQ5_K : T::kQ4_K;
  if (name == "Q2_K") return T::kQ3_K;
  if (name == "IQ3_M") return T::kQ4_K;
  return preset.base;
}

T llama_attention_output_type(const QuantPreset& preset, const LlamaCounts& counts) noexcept {
  const std::string_view name = preset.name;
  if (counts.eight_experts) {
    for (const std::string_view raised :
         {"Q2_K", "Q3_K_S", "Q3_K_M", "Q4_K_S", "Q4_K_M", "IQ4_NL", "IQ4_XS", "IQ3_S", "IQ3_M"}) {
      if (name == raised) return T::kQ5_K;
    }
    return preset.base;
  }
  if (name == "Q3_K_L") return T::kQ5_K;
  if (name == "Q3_K_M" || name == "IQ3_M") return T::kQ4_K;
  if (name == "Q2_K") return T::kQ3_K;
  return preset.base;
}

T llama_down_type(const QuantPreset& preset, int64_t layer, int64_t n_layers) noexcept {
  const std::string_view name = preset.name;
  const bool early = layer < n_layers / 8;
  if (name == "Q5_K_M" || name == "Q4_K_M") return more_bits(layer, n_layers) ? T::kQ6_K : preset.base;
  if (name == "Q4_K_S" || name == "IQ4_NL" || name == "IQ4_XS") return early ? T::kQ5_K : preset.base;
  if (name == "Q3_K_L") return T::kQ5_K;
  if (name == "Q3_K_M") return layer < n_layers / 16 ? T::kQ5_K : T::kQ4_K;
  if (name == "Q2_K") return T::kQ3_K;
  if (name == "IQ3_M") return early ? T::kQ4_K : preset.base;
  return preset.base;
}

void choose_like_llama(std::vector<PlannedTensor>& tensors, const QuantPreset& preset) {
  const LlamaCounts counts = count(tensors);
  int64_t value = 0;
  for (PlannedTensor& tensor : tensors) {
    if (!tensor.quantisable()) continue;
    const Id id = tensor.spec->id;
    T type = preset.base;
    if (is_plain(type)) {
      tensor.type = type;
      continue;
    }
    if (preset.name == "MXFP4_MOE") {
      if (is_expert_stack(tensor)) type = T::kMXFP4;
    } else if (id == Id::kOutput) {
      if (type != T::kQ8_0) type = T::kQ6_K;
    } else if (is_value(id)) {
      type = llama_value_type(preset, value++, counts);
    } else if (id == Id::kKdaK) {
      if (counts.eight_experts) type = T::kQ8_0;
    } else if (is_attention_output(id)) {
      type = llama_attention_output_type(preset, counts);
    } else if (is_down(id)) {
      type = llama_down_type(preset, tensor.layer, counts.n_layers);
    }
    tensor.type = type_that_fits(type, tensor.cols());
  }
}

// ---- the choices for KDA models ----

/// Relative squared error that our encoders make on the experts of a checkpoint (docs/quantization.md).
double squared_error(T type) noexcept {
  const auto square = [](double percent) { return percent * percent * 1e-4; };
  switch (type) {
    case T::kQ4_0:
      return square(8.08);
    case T::kQ4_1:
      return square(6.92);
    case T::kQ5_0:
      return square(4.01);
    case T::kQ5_1:
      return square(3.33);
    case T::kQ8_0:
      return square(0.535);
    case T::kQ2_K:
      return square(26.2);
    case T::kQ3_K:
      return square(14.4);
    case T::kQ4_K:
      return square(6.97);
    case T::kQ5_K:
      return square(3.44);
    case T::kQ6_K:
      return square(1.7);
    case T::kIQ4_NL:
      return square(7.46);
    case T::kIQ4_XS:
      return square(7.49);
    case T::kMXFP4:
      return square(11.2);
    case T::kIQ3_S:
      return square(13.0);
    case T::kIQ3_XXS:
      return square(17.8);
    case T::kIQ2_S:
      return square(24.0);
    case T::kIQ2_XS:
      return square(28.7);
    case T::kIQ2_XXS:
      return square(32.8);
    case T::kIQ1_M:
      return square(41.3);
    case T::kIQ1_S:
      return square(44.4);
    default:
      return 0;
  }
}

double bits_of(T type) noexcept {
  const TensorTypeInfo& info = type_info(type);
  return 8.0 * static_cast<double>(info.block_bytes) / static_cast<double>(info.block_elements);
}

/// The types that a file of this base may mix, by rising size. Past 6 bits there is little left to gain, and what every
/// token reads would take longer to read.
std::vector<T> ladder_of(T base) {
  constexpr T kLegacy0[] = {T::kQ4_0, T::kQ5_0, T::kQ8_0};
  constexpr T kLegacy1[] = {T::kQ4_1, T::kQ5_1, T::kQ8_0};
  constexpr T kLegacyNl[] = {T::kIQ4_NL, T::kQ5_1, T::kQ8_0};
  constexpr T kK[] = {T::kQ2_K, T::kQ3_K, T::kIQ4_XS, T::kQ4_K, T::kQ5_K, T::kQ6_K};
  constexpr T kIq[] = {T::kIQ1_S,   T::kIQ1_M, T::kIQ2_XXS, T::kIQ2_XS, T::kIQ2_S,
                       T::kIQ3_XXS, T::kIQ3_S, T::kIQ4_XS,  T::kQ5_K,   T::kQ6_K};
  std::span<const T> all = kK;
  if (base == T::kQ4_0 || base == T::kQ5_0) all = kLegacy0;
  if (base == T::kQ4_1 || base == T::kQ5_1) all = kLegacy1;
  if (base == T::kIQ4_NL) all = kLegacyNl;
  if (std::find(std::begin(kIq), std::end(kIq), base) != std::end(kIq) && bits_of(base) < bits_of(T::kIQ4_XS))
    all = kIq;
  std::vector<T> out;
  std::copy_if(all.begin(), all.end(), std::back_inserter(out), can_quantize);
  return out;
}

/// What the answers lose by noise in a tensor: the divergence that Q3_K in these tensors alone caused on the demo
/// model, divided by their number, relative to the least and rounded (docs/quantization.md). Zero: not to be touched,
/// delicate_type.
double sensitivity(Id id) noexcept {
  switch (id) {
    case Id::kDecayDown:
    case Id::kDecayUp:
    case Id::kBeta:
    case Id::kGateDown:
    case Id::kGateUp:
    case Id::kMlaKvDown:
    case Id::kMlaKvUp:
    case Id::kMlaKUp:
    case Id::kMlaVUp:
      return 0;
    case Id::kOutput:
      return 128;
    case Id::kTokenEmbedding:
      return 32;
    case Id::kDenseGate:
    case Id::kDenseUp:
    case Id::kDenseDown:
      return 16;
    case Id::kKdaK:
    case Id::kKdaV:
    case Id::kKdaQkv:
    case Id::kKdaOutput:
    case Id::kMlaOutput:
      return 8;
    case Id::kKdaQ:
    case Id::kMlaQ:
    case Id::kMlaQDown:
    case Id::kMlaQUp:
    case Id::kExpertUp:
      return 2;
    default:  // experts and shared experts
      return 4;
  }
}

/// Of tensors that no mix takes bits from. attn_k_b is BF16: three hundredths of a percent of the 48B model, and
/// llama.cpp aborts when it loads the tensor as F16, Q8_0 or Q4_0 on a processor with AMX, whose layout of weights it
/// then gives it without having the product of such a layout for three dimensions.
T delicate_type(const PlannedTensor& tensor) noexcept {
  return tensor.spec->id == Id::kMlaKUp ? T::kBF16 : type_that_fits(T::kQ8_0, tensor.cols());
}

class Allocator {
 public:
  Allocator(std::vector<PlannedTensor>& tensors, T base) : tensors_(tensors) {
    const std::vector<T> ladder = ladder_of(base);
    for (size_t i = 0; i < tensors.size(); ++i) {
      PlannedTensor& tensor = tensors[i];
      if (!tensor.quantisable()) continue;
      const double weight = sensitivity(tensor.spec->id);
      if (weight == 0) {
        tensor.type = delicate_type(tensor);
        continue;
      }
      tensor.type = type_that_fits(base, tensor.cols());
      choices_.push_back(choices_for(i, weight, ladder));
    }
  }

  /// Takes bits away where that costs least until the file is no larger than `budget` bytes, then gives bits where they
  /// bring most as long as they fit.
  void fit(int64_t budget) {
    int64_t total = total_bytes(tensors_);
    while (total > budget) {
      const std::optional<Step> step = best_step(false, 0);
      if (!step) break;
      total += take(*step);
    }
    while (const std::optional<Step> step = best_step(true, budget - total)) total += take(*step);
  }

 private:
  struct Option {
    T type;
    int64_t bytes;
    double loss;
  };
  struct Choice {
    size_t tensor;
    size_t at;  // the option chosen
    std::vector<Option> options;
  };
  struct Step {
    size_t choice;
    size_t to;
  };

  /// Options of rising size and falling loss; those that another pair of options beats are left out.
  [[nodiscard]] Choice choices_for(size_t index, double weight, const std::vector<T>& ladder) const {
    const PlannedTensor& tensor = tensors_[index];
    Choice out{index, 0, {}};
    for (const T type : ladder) {
      const T fitted = type_that_fits(type, tensor.cols());
      const Option option{fitted, row_bytes(fitted, tensor.cols()) * tensor.n_rows(), weight * squared_error(fitted)};
      if (!out.options.empty() &&
          (option.bytes <= out.options.back().bytes || option.loss >= out.options.back().loss)) {
        continue;
      }
      out.options.push_back(option);
    }
    const auto at =
        std::find_if(out.options.begin(), out.options.end(), [&](const Option& o) { return o.type == tensor.type; });
    if (at == out.options.end()) {  // a base that is on no ladder stays
      out.options = {{tensor.type, tensor.bytes(), weight * squared_error(tensor.type)}};
    } else {
      out.at = static_cast<size_t>(at - out.options.begin());
    }
    return out;
  }

  /// Loss saved (or, downwards, the least lost) a byte.
  [[nodiscard]] static double rate(const Option& small, const Option& large) noexcept {
    return (small.loss - large.loss) / static_cast<double>(large.bytes - small.bytes);
  }

  /// Upwards at most `room` bytes more.
  [[nodiscard]] std::optional<Step> best_step(bool up, int64_t room) const {
    std::optional<Step> best;
    double best_rate = 0;
    for (size_t c = 0; c < choices_.size(); ++c) {
      const Choice& choice = choices_[c];
      const auto consider = [&](size_t to) {
        const Option& here = choice.options[choice.at];
        const Option& there = choice.options[to];
        if (up && there.bytes - here.bytes > room) return;
        const double r = up ? rate(here, there) : rate(there, here);
        if (!best || (up ? r > best_rate : r < best_rate)) {
          best = Step{c, to};
          best_rate = r;
        }
      };
      if (up) {
        for (size_t to = choice.at + 1; to < choice.options.size(); ++to) consider(to);
      } else if (choice.at > 0) {
        consider(choice.at - 1);
      }
    }
    return best;
  }

  int64_t take(const Step& step) {
    Choice& choice = choices_[step.choice];
    const int64_t change = choice.options[step.to].bytes - choice.options[choice.at].bytes;
    choice.at = step.to;
    tensors_[choice.tensor].type = choice.options[step.to].type;
    return change;
  }

  std::vector<PlannedTensor>& tensors_;
  std::vector<Choice> choices_;
};

void choose_for_kda(std::vector<PlannedTensor>& tensors, const QuantPreset& preset) {
  choose_like_llama(tensors, preset);
  if (is_plain(preset.base)) return;
  if (preset.base == T::kQ8_0) {  // all of it is at 8 bits already, but for MXFP4 where only experts belong
    for (PlannedTensor& tensor : tensors) {
      if (tensor.quantisable() && sensitivity(tensor.spec->id) == 0) tensor.type = delicate_type(tensor);
    }
    return;
  }
  const int64_t budget = total_bytes(tensors);
  Allocator(tensors, preset.base).fit(budget);
}

void apply_rules(std::vector<PlannedTensor>& tensors, std::span<const TypeRule> rules,
                 std::vector<std::string>& notes) {
  for (const TypeRule& rule : rules) {
    int64_t matched = 0;
    int64_t fixed = 0;
    for (PlannedTensor& tensor : tensors) {
      if (!std::regex_search(tensor.name, rule.pattern)) continue;
      if (!tensor.quantisable()) {
        ++fixed;
        continue;
      }
      ++matched;
      tensor.type = type_that_fits(rule.type, tensor.cols());
      if (tensor.type != rule.type) {
        notes.push_back(fmt::format("{}: {} has rows of {}, which {} cannot hold: {} is used", rule.text, tensor.name,
                                    tensor.cols(), type_info(rule.type).name, type_info(tensor.type).name));
      }
    }
    if (matched == 0) {
      notes.push_back(fixed == 0 ? fmt::format("{} matches no tensor", rule.text)
                                 : fmt::format("{} matches only tensors that are never quantised", rule.text));
    }
  }
}

}  // namespace

void choose_types(std::vector<PlannedTensor>& tensors, const QuantPreset& preset, Recipe recipe,
                  std::span<const TypeRule> rules, std::vector<std::string>& notes) {
  for (PlannedTensor& tensor : tensors) {
    // What the schema does not know may mean anything: it keeps its bytes.
    tensor.type = tensor.spec == nullptr ? tensor.source.type : T::kF32;
  }
  switch (recipe) {
    case Recipe::kKda:
      choose_for_kda(tensors, preset);
      break;
    case Recipe::kLlamaCpp:
      choose_like_llama(tensors, preset);
      break;
    case Recipe::kPure:
      for (PlannedTensor& tensor : tensors) {
        if (tensor.quantisable()) tensor.type = type_that_fits(preset.base, tensor.cols());
      }
      break;
  }
  apply_rules(tensors, rules, notes);
}

}  // namespace kda
