// What a forward pass asks of a device: a dozen coarse operations on matrices of floats.
//
// Layers are written against Ops alone. Every operation has the same result, bit for bit, for any number of threads,
// and the result of a token never depends on the other tokens that go through with it.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernel_table.h"
#include "ops/arena.h"
#include "quant/matrix.h"

namespace kda {

/// Rows of floats; row i begins at data + i * stride. Does not own.
struct MatView {
  float* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  explicit operator bool() const noexcept { return data != nullptr; }
  [[nodiscard]] float* row(int64_t i) const noexcept { return data + i * stride; }
  [[nodiscard]] MatView first_rows(int64_t n) const noexcept { return {data, n, cols, stride}; }
  [[nodiscard]] MatView rows_from(int64_t begin, int64_t n) const noexcept { return {row(begin), n, cols, stride}; }
  [[nodiscard]] MatView columns(int64_t begin, int64_t n) const noexcept { return {data + begin, rows, n, stride}; }
  /// [T, parts * n] as [T * parts, n]; rows must lie without gaps.
  [[nodiscard]] MatView split(int64_t parts) const noexcept {
    return {data, rows * parts, cols / parts, stride / parts};
  }
};

/// Room for a matrix.
[[nodiscard]] inline MatView take_matrix(Arena& arena, int64_t rows, int64_t cols) {
  return {arena.take<float>(rows * cols), rows, cols, cols};
}

/// A matrix that products read. It remembers its int8 forms, so that all products that read one input convert it once.
class Activation {
 public:
  struct Form {
    int8_t* codes = nullptr;
    float* scales = nullptr;
    int16_t* sums = nullptr;
    bool ready = false;
  };

  Activation() = default;
  /// Room for the int8 forms of up to max_rows rows; the floats lie elsewhere, see set().
  Activation(Arena& arena, int64_t max_rows, int64_t cols);

  /// Names the floats [rows, cols]. They may be written until the first product reads them, then again after the next
  /// set().
  void set(const MatView& x) noexcept;
  [[nodiscard]] const MatView& f32() const noexcept { return x_; }
  /// For backends. format is not kF32.
  [[nodiscard]] Form& form(ActFormat format) noexcept { return format == ActFormat::kQ8Block32 ? block32_ : block256_; }

 private:
  MatView x_;
  Form block32_, block256_;
};

/// y[t] = w x[t]. exact: fp32 activations even when w is quantised.
struct Product {
  Activation* x = nullptr;
  QMatView w;
  MatView y;
  bool exact = false;
};

/// Which rows go through which matrix: group g sends x rows x_rows[begin[g]..begin[g+1]) through matrix[g] into the y
/// rows y_rows[same].
struct Grouping {
  int64_t n_groups = 0;
  const int32_t* matrix = nullptr;  // [n_groups]
  const int32_t* begin = nullptr;   // [n_groups + 1]
  const int32_t* x_rows = nullptr;
  const int32_t* y_rows = nullptr;
};

struct GroupedProduct {
  Activation* x = nullptr;
  const QMatsView* w = nullptr;
  MatView y;
  const Grouping* grouping = nullptr;
};

/// What the recurrence of a KDA layer takes of each token; H heads, C channels of all heads.
struct KdaRows {
  MatView q, k, v;  // [T, C] projections
  MatView f;        // [T, C] decay gate before the bias
  MatView beta;     // [T, H] before the sigmoid

  [[nodiscard]] KdaRows rows_from(int64_t begin, int64_t n) const noexcept {
    return {.q = q.rows_from(begin, n),
            .k = k.rows_from(begin, n),
            .v = v.rows_from(begin, n),
            .f = f.rows_from(begin, n),
            .beta = beta.rows_from(begin, n)};
  }
};

/// The part of a KDA layer between its projections; equations in layers/kda.cpp. T tokens, H heads, K channels a head,
/// C = H * K.
struct KdaOp {
  int64_t n_heads = 0;
  int64_t head_dim = 0;
  int64_t taps = 0;
  KdaRows pending = {};                       // rows whose outputs are known; they enter the state first
  KdaRows x = {};                             // the rows at hand
  bool tentative = false;                     // leave state and conv_tail as they are before the rows at hand
  MatView gate = {};                          // [T, C] output gate before the sigmoid
  const float* conv[3] = {};                  // q, k, v: [taps, C], oldest tap first
  std::span<const float> a, dt_bias, o_norm;  // [H], [C], [K]
  float qk_norm_eps = 0;                      // added to the sum of squares
  float o_norm_eps = 0;                       // added to the mean of squares
  float* state = nullptr;                     // [H, V, K]
  float* conv_tail = nullptr;                 // [3, taps - 1, C], oldest row first
  MatView out = {};                           // [T, C]: normed and gated
  bool trace = false;                         // also leave what went into the recurrence in x ...
  MatView raw_out = {};                       // ... and what came out of it here, [T, C]
};

/// Absorbed attention over a latent cache; R latent, P positional channels.
struct MlaAttendOp {
  int64_t n_heads = 0;
  int64_t dim_v = 0;           // R
  int64_t first_position = 0;  // of the first token of q
  float scale = 0;
  MatView q;                     // [T * H, R + P]
  const float* cache = nullptr;  // [first_position + T, R + P]
  MatView ctx;                   // [T * H, R]
};

/// The same attention with keys and values of the heads expanded from the latents; N nope, V value channels. For many
/// tokens: expanding costs the same for any number of them.
struct MlaExpandedOp {
  int64_t n_heads = 0;
  int64_t first_position = 0;  // of the first token of q
  float scale = 0;
  MatView q;                       // [T, H * (N + P)]
  const float* cache = nullptr;    // [first_position + T, R + P]
  const QMatsView* k_b = nullptr;  // a head: [R, N]
  const QMatsView* v_b = nullptr;  // a head: [V, R]
  SoftmaxState* states = nullptr;  // [H * T], to work in
  MatView out;                     // [T, H * V]
};

/// Choice of experts; E experts, k used.
struct RouteOp {
  MatView scores = {};               // [T, E] logits; becomes sigmoids
  std::span<const float> bias = {};  // [E], for the choice only
  int64_t n_groups = 1;
  int64_t n_groups_used = 1;
  int64_t n_used = 0;
  bool renormalize = false;
  float factor = 1;
};

/// Experts of each token, and the same sorted by expert. All memory belongs to the workspace.
struct Routing {
  int32_t* experts = nullptr;  // [T, k], by falling score
  float* weights = nullptr;    // [T, k]
  int32_t* matrix = nullptr;   // [E]
  int32_t* begin = nullptr;    // [E + 1]
  int32_t* tokens = nullptr;   // [T * k] the token of each row, sorted by expert
  int32_t* slots = nullptr;    // [T * k] token * k + slot, sorted by expert
  int64_t n_groups = 0;        // experts that have work

  Routing() = default;
  Routing(Arena& arena, int64_t max_tokens, int64_t n_experts, int64_t n_used);
};

/// One device. Not thread-safe: one forward pass at a time. No operation allocates or throws.
class Ops {
 public:
  static constexpr size_t kMaxProducts = 8;

  virtual ~Ops() = default;

  /// out[t] = row ids[t] of table; ids are in range.
  virtual void embed(const QMatView& table, std::span<const int32_t> ids, const MatView& out) = 0;
  /// out[t] = x[t] / sqrt(mean(x[t]^2) + eps) * w; out may be x.
  virtual void rms_norm(const MatView& x, std::span<const float> w, float eps, const MatView& out) = 0;
  /// All products in one phase, kMaxProducts at most.
  virtual void matmul(std::span<const Product> products, std::span<const GroupedProduct> grouped = {}) = 0;
  /// y += x
  virtual void add(const MatView& x, const MatView& y) = 0;
  virtual void copy(const MatView& x, const MatView& y) = 0;
  /// out = silu(gate) * up; out may be gate.
  virtual void silu_mul(const MatView& gate, const MatView& up, const MatView& out) = 0;
  virtual void kda(const KdaOp& op) = 0;
  virtual void mla_attend(const MlaAttendOp& op) = 0;
  virtual void mla_expanded(const MlaExpandedOp& op) = 0;
  virtual void route(const RouteOp& op, Routing& routing) = 0;
  /// out[t] = sum over slots j, in order, of weights[t, j] * y[t * k + j]
  virtual void combine(const MatView& y, const float* weights, int64_t n_used, const MatView& out) = 0;
  /// True when every element is a finite number.
  [[nodiscard]] virtual bool all_finite(const MatView& x) = 0;
};

}  // namespace kda
