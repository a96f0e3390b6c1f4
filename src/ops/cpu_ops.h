// Ops on the processor: threads over blocks of rows, heads or tokens, kernels by instruction set.
#pragma once

#include <algorithm>

#include "base/thread_pool.h"
#include "kernels/kernel_table.h"
#include "ops/ops.h"

namespace kda {

/// Upper bounds of what the operations will be called with; they size the scratch memory of the threads.
struct OpsLimits {
  int64_t max_cols = 0;      // columns of any weight matrix
  int64_t kda_head_dim = 0;  // 0: no KDA layer
  int64_t kda_taps = 1;      // of the convolutions
  int64_t latent_rank = 0;   // 0: no MLA layer
  int64_t latent_pe = 0;     // positional channels
  int64_t mla_nope = 0;      // channels of a head's keys and values
  int64_t mla_value = 0;
  int64_t n_experts = 0;  // 0: no MoE layer
};

class CpuOps final : public Ops {
 public:
  /// pool and kernels outlive the object; scratch memory comes from arena. exact: fp32 activations in all products.
  CpuOps(ThreadPool& pool, const KernelTable& kernels, bool exact, const OpsLimits& limits, Arena& arena);

  void embed(const QMatView& table, std::span<const int32_t> ids, const MatView& out) override;
  void rms_norm(const MatView& x, std::span<const float> w, float eps, const MatView& out) override;
  void matmul(std::span<const Product> products, std::span<const GroupedProduct> grouped) override;
  void add(const MatView& x, const MatView& y) override;
  void copy(const MatView& x, const MatView& y) override;
  void silu_mul(const MatView& gate, const MatView& up, const MatView& out) override;
  void kda(const KdaOp& op) override;
  void mla_attend(const MlaAttendOp& op) override;
  void mla_expanded(const MlaExpandedOp& op) override;
  void route(const RouteOp& op, Routing& routing) override;
  void combine(const MatView& y, const float* weights, int64_t n_used, const MatView& out) override;
  [[nodiscard]] bool all_finite(const MatView& x) override;

 private:
  /// Serial below this many floats: a phase costs about as much as touching them.
  static constexpr int64_t kSerialFloats = 8192;

  [[nodiscard]] MatmulKernel kernel_for(TensorType type, bool exact) const;
  [[nodiscard]] ActView prepare(Activation& x, ActFormat format);
  [[nodiscard]] std::byte* scratch(int thread) const noexcept { return scratch_ + thread * scratch_stride_bytes_; }

  /// mla_attend by blocks of rows, each through all keys.
  void attend_by_rows(const MlaAttendOp& op);
  /// mla_attend by ranges of keys, for few rows.
  void attend_by_keys(const MlaAttendOp& op);

  /// f(i, thread) for each i in [0, n); threads take the next i as they get free.
  template <typename F>
  void for_tasks(int64_t n, F&& f) {
    pool_.for_each(n, f);
  }

  /// f(row, thread) for each row, on the calling thread when there is little to do.
  template <typename F>
  void for_rows(int64_t n_rows, int64_t floats_a_row, F&& f) {
    if (n_rows * floats_a_row <= kSerialFloats) {
      for (int64_t i = 0; i < n_rows; ++i) f(i, 0);
      return;
    }
    const int64_t block = std::max<int64_t>(1, kSerialFloats / 4 / floats_a_row);
    for_tasks((n_rows + block - 1) / block, [&](int64_t b, int thread) {
      const int64_t end = std::min(n_rows, (b + 1) * block);
      for (int64_t i = b * block; i < end; ++i) f(i, thread);
    });
  }

  ThreadPool& pool_;
  const KernelTable& kernels_;
  bool exact_;
  int64_t scratch_stride_bytes_;  // of one thread
  std::byte* scratch_;
  // Attention of a row over a range of keys, before the ranges are put together.
  int64_t n_parts_;
  float* part_ctx_;           // [n_parts_, R]
  SoftmaxState* part_state_;  // [n_parts_]
  SoftmaxState* row_state_;   // [n_parts_]: of whole rows, as far as they are put together
};

}  // namespace kda
