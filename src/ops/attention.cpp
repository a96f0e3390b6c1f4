// Attention over a latent cache, split over threads.
//
// Absorbed form: the keys are cut into ranges of kRangeKeys at fixed positions. Each range gives a part, the softmax of
// a row over that range alone, and parts are put together from the first range to the last. So the bits of a row
// depend neither on the threads nor on the other rows, whether threads take rows or ranges.
#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "ops/kda_head.h"
#include "quant/codec.h"

namespace kda {

namespace {

// Query rows that share a pass over the keys: enough to reuse a tile of the cache, few enough that their accumulators
// stay in the second-level cache.
constexpr int64_t kAttendRows = 64;

// Keys of a part: few, so that threads have several parts each at a short context; many, so that putting a part
// together with the others costs little beside making it.
constexpr int64_t kRangeKeys = 256;
static_assert(kRangeKeys % kMlaTileKeys == 0);

// Parts a thread: four blocks of rows, so that threads end nearly together.
constexpr int64_t kPartsPerThread = 4 * kAttendRows;

// Query rows of the expanded form that are worth expanding the keys once more.
constexpr int64_t kLeastExpandedRows = 128;

int64_t n_keys_of(const MlaAttendOp& op, int64_t row) { return op.first_position + row / op.n_heads + 1; }

// state and ctx become those of both ranges of keys.
void add_part(const SoftmaxState& part_state, const float* part_ctx, int64_t dim, SoftmaxState& state, float* ctx) {
  const float max = std::max(state.max, part_state.max);
  const float keep = std::exp(state.max - max);
  const float take = std::exp(part_state.max - max);
  state = {max, state.sum * keep + part_state.sum * take};
  for (int64_t i = 0; i < dim; ++i) ctx[i] = ctx[i] * keep + part_ctx[i] * take;
}

void divide_by_sum(const SoftmaxState& state, int64_t dim, float* ctx) {
  const float inverse = 1 / state.sum;
  for (int64_t i = 0; i < dim; ++i) ctx[i] *= inverse;
}

// Pointers to the rows [begin, end) of an operation, as kernels take them.
struct Rows {
  Rows(const MlaAttendOp& op, int64_t row_begin, int64_t row_end) : begin(row_begin), n(row_end - row_begin) {
    for (int64_t i = 0; i < n; ++i) {
      q[i] = op.q.row(begin + i);
      n_keys[i] = n_keys_of(op, begin + i);
    }
  }

  // Rows of the results, ctx.data + i * stride.
  void attend(const KernelTable& kernels, const MlaAttendOp& op, int64_t key_begin, float* ctx_data, int64_t stride,
              SoftmaxState* states, float* scratch) const {
    float* ctx[kAttendRows];
    for (int64_t i = 0; i < n; ++i) ctx[i] = ctx_data + i * stride;
    kernels.mla_attend({.n_rows = n,
                        .dim_qk = op.q.cols,
                        .dim_v = op.dim_v,
                        .scale = op.scale,
                        .q = q,
                        .ctx = ctx,
                        .states = states,
                        .n_keys = n_keys,
                        .cache = op.cache,
                        .key_begin = key_begin,
                        .key_end = key_begin + kRangeKeys,
                        .scratch = scratch});
  }

  int64_t begin;
  int64_t n;
  const float* q[kAttendRows];
  int64_t n_keys[kAttendRows];
};

// Rows a task when n rows are worked on n_times each: several tasks a thread, and kernels take rows by 6 or 8.
int64_t rows_a_task(int64_t n, int64_t n_times, int n_threads) {
  const int64_t even = n * n_times / (int64_t{4} * n_threads);
  return std::clamp<int64_t>((even + 7) / 8 * 8, 8, kAttendRows);
}

}  // namespace

int64_t attention_scratch_floats(const OpsLimits& limits) noexcept {
  const int64_t absorbed = mla_scratch_floats(kAttendRows) + kAttendRows * limits.latent_rank;
  const int64_t row = std::max(limits.mla_nope, limits.latent_rank);
  const int64_t expanded = mla_head_scratch_floats(limits.mla_nope, limits.latent_pe, limits.mla_value) +
                           mla_up_floats(limits.mla_nope, limits.mla_value, limits.latent_rank) + row;
  return std::max(absorbed, expanded);
}

int64_t attention_parts(int n_threads) noexcept { return n_threads == 1 ? 0 : n_threads * kPartsPerThread; }

void CpuOps::kda(const KdaOp& op) {
  for_tasks(op.n_heads,
            [&](int64_t head, int thread) { kda_head(kernels_, op, head, reinterpret_cast<float*>(scratch(thread))); });
}

void CpuOps::mla_attend(const MlaAttendOp& op) {
  const bool one_range = n_keys_of(op, op.q.rows - 1) <= kRangeKeys;
  if (one_range || op.q.rows > n_parts_) {
    attend_by_rows(op);
  } else {
    attend_by_keys(op);
  }
}

void CpuOps::attend_by_rows(const MlaAttendOp& op) {
  const int64_t n_rows = op.q.rows;
  const int64_t block = rows_a_task(n_rows, 1, pool_.n_threads());
  const int64_t n_blocks = (n_rows + block - 1) / block;
  for_tasks(n_blocks, [&](int64_t i, int thread) {
    const int64_t begin = (n_blocks - 1 - i) * block;  // the ones with most keys first
    const Rows rows(op, begin, std::min(n_rows, begin + block));
    auto* part_ctx = reinterpret_cast<float*>(scratch(thread));
    float* kernel_scratch = part_ctx + kAttendRows * op.dim_v;
    SoftmaxState states[kAttendRows];
    SoftmaxState part_states[kAttendRows];
    rows.attend(kernels_, op, 0, op.ctx.row(begin), op.ctx.stride, states, kernel_scratch);
    const int64_t n_keys = rows.n_keys[rows.n - 1];
    for (int64_t key = kRangeKeys; key < n_keys; key += kRangeKeys) {
      rows.attend(kernels_, op, key, part_ctx, op.dim_v, part_states, kernel_scratch);
      for (int64_t r = 0; r < rows.n; ++r) {
        if (rows.n_keys[r] <= key) continue;
        add_part(part_states[r], part_ctx + r * op.dim_v, op.dim_v, states[r], op.ctx.row(begin + r));
      }
    }
    for (int64_t r = 0; r < rows.n; ++r) divide_by_sum(states[r], op.dim_v, op.ctx.row(begin + r));
  });
}

void CpuOps::attend_by_keys(const MlaAttendOp& op) {
  const int64_t n_rows = op.q.rows;
  const int64_t n_keys = n_keys_of(op, n_rows - 1);
  const int64_t n_ranges = (n_keys + kRangeKeys - 1) / kRangeKeys;
  for (int64_t first = 0; first < n_ranges;) {
    const int64_t n = std::min(n_ranges - first, n_parts_ / n_rows);
    const int64_t block = rows_a_task(n_rows, n, pool_.n_threads());
    const int64_t n_blocks = (n_rows + block - 1) / block;
    for_tasks(n * n_blocks, [&](int64_t i, int thread) {
      const int64_t begin = i % n_blocks * block;
      const Rows rows(op, begin, std::min(n_rows, begin + block));
      const int64_t part = i / n_blocks * n_rows + begin;
      rows.attend(kernels_, op, (first + i / n_blocks) * kRangeKeys, part_ctx_ + part * op.dim_v, op.dim_v,
                  part_state_ + part, reinterpret_cast<float*>(scratch(thread)));
    });
    const bool last = first + n == n_ranges;
    for_rows(n_rows, n * op.dim_v, [&](int64_t r, int) {
      for (int64_t i = 0; i < n; ++i) {
        if (n_keys_of(op, r) <= (first + i) * kRangeKeys) break;
        const int64_t part = i * n_rows + r;
        const float* part_ctx = part_ctx_ + part * op.dim_v;
        if (first + i == 0) {
          row_state_[r] = part_state_[part];
          std::copy_n(part_ctx, op.dim_v, op.ctx.row(r));
        } else {
          add_part(part_state_[part], part_ctx, op.dim_v, row_state_[r], op.ctx.row(r));
        }
      }
      if (last) divide_by_sum(row_state_[r], op.dim_v, op.ctx.row(r));
    });
    first += n;
  }
}

namespace {

// A head's matrices as MlaHeadArgs::up; row holds a row of either.
void pack_up(const QMatView& k_b, const QMatView& v_b, float* row, float* up) {
  const int64_t rank = k_b.rows;
  const auto at = [&](int64_t column) {
    return up + column / kPanelColumns * rank * kPanelColumns + column % kPanelColumns;
  };
  for (int64_t i = 0; i < rank; ++i) {
    dequantize_row(k_b.type, k_b.data + i * k_b.row_bytes, row, k_b.cols);
    for (int64_t c = 0; c < panels(k_b.cols) * kPanelColumns; ++c) {
      at(c)[i * kPanelColumns] = c < k_b.cols ? row[c] : 0;
    }
  }
  up += panels(k_b.cols) * kPanelColumns * rank;
  for (int64_t c = 0; c < panels(v_b.rows) * kPanelColumns; ++c) {
    if (c < v_b.rows) {
      dequantize_row(v_b.type, v_b.data + c * v_b.row_bytes, row, rank);
    } else {
      std::fill_n(row, rank, 0.0F);
    }
    float* to = at(c);
    for (int64_t i = 0; i < rank; ++i) to[i * kPanelColumns] = row[i];
  }
}

}  // namespace

void CpuOps::mla_expanded(const MlaExpandedOp& op) {
  const int64_t n_tokens = op.q.rows;
  const int64_t dim_q = op.q.cols / op.n_heads;
  const int64_t dim_v = op.out.cols / op.n_heads;
  const int64_t rank = op.k_b->rows;
  const int64_t dim_nope = op.k_b->cols;
  // A task is a head; with more threads than heads, tokens are cut as well, and each part expands the keys for itself.
  const int64_t wanted = (pool_.n_threads() + op.n_heads - 1) / op.n_heads;
  const int64_t n_blocks = std::clamp<int64_t>(n_tokens / kLeastExpandedRows, 1, wanted);
  const int64_t block = (n_tokens + n_blocks - 1) / n_blocks;
  for_tasks(op.n_heads * n_blocks, [&](int64_t i, int thread) {
    const int64_t head = i % op.n_heads;
    const int64_t begin = (n_blocks - 1 - i / op.n_heads) * block;  // the ones with most keys first
    auto* kernel_scratch = reinterpret_cast<float*>(scratch(thread));
    float* up = kernel_scratch + mla_head_scratch_floats(dim_nope, dim_q - dim_nope, dim_v);
    float* row = up + mla_up_floats(dim_nope, dim_v, rank);
    pack_up((*op.k_b)[head], (*op.v_b)[head], row, up);
    kernels_.mla_head({.n_rows = std::min(block, n_tokens - begin),
                       .first_position = op.first_position + begin,
                       .dim_nope = dim_nope,
                       .dim_pe = dim_q - dim_nope,
                       .dim_v = dim_v,
                       .rank = rank,
                       .scale = op.scale,
                       .q = op.q.row(begin) + head * dim_q,
                       .q_stride = op.q.stride,
                       .cache = op.cache,
                       .up = up,
                       .out = op.out.row(begin) + head * dim_v,
                       .out_stride = op.out.stride,
                       .states = op.states + head * n_tokens + begin,
                       .scratch = kernel_scratch});
  });
}

}  // namespace kda
