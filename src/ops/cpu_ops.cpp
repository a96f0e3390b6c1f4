#include "ops/cpu_ops.h"

#include <bit>
#include <cstring>
#include <limits>

#include "ops/attention.h"
#include "ops/kda_head.h"
#include "quant/codec.h"

namespace kda {

namespace {

int64_t thread_scratch_bytes(const OpsLimits& limits) {
  const int64_t product = matmul_scratch_bytes(limits.max_cols);
  const int64_t head = limits.kda_head_dim == 0 ? 0 : kda_head_scratch_floats(limits.kda_head_dim, limits.kda_taps) * 4;
  const int64_t attend = limits.latent_rank == 0 ? 0 : attention_scratch_floats(limits) * 4;
  const int64_t route = 2 * limits.n_experts * 4;
  const int64_t bytes = std::max({product, head, attend, route});
  return (bytes + 63) / 64 * 64 + 64;  // threads do not share a cache line
}

}  // namespace

CpuOps::CpuOps(ThreadPool& pool, const KernelTable& kernels, bool exact, const OpsLimits& limits, Arena& arena)
    : pool_(pool),
      kernels_(kernels),
      exact_(exact),
      scratch_stride_bytes_(thread_scratch_bytes(limits)),
      scratch_(arena.take<std::byte>(scratch_stride_bytes_ * pool.max_threads())),
      n_parts_(limits.latent_rank == 0 ? 0 : attention_parts(pool.max_threads())),
      part_ctx_(arena.take<float>(n_parts_ * limits.latent_rank)),
      part_state_(arena.take<SoftmaxState>(n_parts_)),
      row_state_(arena.take<SoftmaxState>(n_parts_)) {}

void CpuOps::embed(const QMatView& table, std::span<const int32_t> ids, const MatView& out) {
  for_rows(static_cast<int64_t>(ids.size()), table.cols, [&](int64_t t, int) {
    const int64_t row = ids[static_cast<size_t>(t)];
    dequantize_row(table.type, table.data + row * table.row_bytes, out.row(t), table.cols);
  });
}

void CpuOps::rms_norm(const MatView& x, std::span<const float> w, float eps, const MatView& out) {
  for_rows(x.rows, x.cols, [&](int64_t t, int) { kernels_.rms_norm(x.row(t), w.data(), eps, x.cols, out.row(t)); });
}

void CpuOps::add(const MatView& x, const MatView& y) {
  for_rows(x.rows, x.cols, [&](int64_t t, int) {
    const float* from = x.row(t);
    float* to = y.row(t);
    for (int64_t i = 0; i < x.cols; ++i) to[i] += from[i];
  });
}

void CpuOps::copy(const MatView& x, const MatView& y) {
  for_rows(x.rows, x.cols,
           [&](int64_t t, int) { std::memcpy(y.row(t), x.row(t), static_cast<size_t>(x.cols) * sizeof(float)); });
}

void CpuOps::silu_mul(const MatView& gate, const MatView& up, const MatView& out) {
  for_rows(gate.rows, gate.cols,
           [&](int64_t t, int) { kernels_.silu_mul(gate.row(t), up.row(t), gate.cols, out.row(t)); });
}

bool CpuOps::all_finite(const MatView& x) {
  constexpr uint32_t kExponent = 0x7F800000;  // all ones in infinities and NaN
  uint32_t bad = 0;
  for (int64_t t = 0; t < x.rows; ++t) {
    const float* row = x.row(t);
    for (int64_t i = 0; i < x.cols; ++i) bad |= (std::bit_cast<uint32_t>(row[i]) & kExponent) == kExponent ? 1U : 0U;
  }
  return bad == 0;
}

// --- products ---

MatmulKernel CpuOps::kernel_for(TensorType type, bool exact) const {
  const auto number = static_cast<uint32_t>(type);
  const MatmulKernel fast = kernels_.matmul[number];
  if ((exact || exact_) && fast.format != ActFormat::kF32) return {kernels_.matmul_f32[number], ActFormat::kF32};
  KDA_CHECK(fast.fn != nullptr);  // a checkpoint holds weight types only, and every one of them has a product
  return fast;
}

ActView CpuOps::prepare(Activation& x, ActFormat format) {
  const MatView& f32 = x.f32();
  if (format == ActFormat::kF32) return {.f32 = f32.data, .f32_stride = f32.stride};
  const int64_t block = format == ActFormat::kQ8Block32 ? 32 : 256;
  const auto quantize = format == ActFormat::kQ8Block32 ? kernels_.quantize_block32 : kernels_.quantize_block256;
  Activation::Form& form = x.form(format);
  if (!form.ready) {
    const int64_t k = f32.cols;
    for_rows(f32.rows, k, [&](int64_t t, int) {
      quantize(f32.row(t), k, form.codes + t * k, form.scales + t * (k / block), form.sums + t * (k / 16));
    });
    form.ready = true;
  }
  return {.codes = form.codes, .scales = form.scales, .sums = form.sums};
}

namespace {

// A product of a phase: one matrix, or those of a group each, cut into blocks of rows. The cut does not change results.
struct PhaseEntry {
  MatmulFn fn = nullptr;
  MatmulArgs args;                          // what the tasks of the product have in common
  const GroupedProduct* grouped = nullptr;  // nullptr: one matrix
  int64_t rows = 0;
  int64_t block = 0;     // rows a task
  int64_t n_blocks = 0;  // tasks a matrix
  int64_t end_task = 0;  // one past the last task of this product, counted over the phase
};

// Tokens that are few: a product is as fast as its weights come from memory.
constexpr int64_t kFewTokens = 8;

// Rows a task: so many weights that taking a task costs nothing beside it, but several tasks a thread. The first rows
// of a task may come without being prefetched; with many tokens that does not show. Kernels take rows by 16.
int64_t rows_a_task(int64_t rows, int64_t row_bytes, int64_t n_matrices, int64_t n_tokens, int n_threads) {
  const int64_t by_size = (n_tokens <= kFewTokens ? 262144 : 65536) / row_bytes;
  const int64_t by_threads = rows * n_matrices / (int64_t{4} * n_threads);
  const int64_t block = std::max<int64_t>(1, std::min(by_size, by_threads));
  return std::min(rows, (block + 15) / 16 * 16);
}

}  // namespace

void CpuOps::matmul(std::span<const Product> products, std::span<const GroupedProduct> grouped) {
  KDA_CHECK(products.size() + grouped.size() <= kMaxProducts);
  PhaseEntry entries[kMaxProducts];
  PhaseEntry* next = entries;
  int64_t n_tasks = 0;
  const auto add = [&](TensorType type, bool exact, Activation& x, const MatView& y, int64_t rows, int64_t cols,
                       int64_t row_bytes, int64_t n_matrices) -> PhaseEntry& {
    KDA_CHECK(x.f32().cols == cols && y.cols == rows);
    PhaseEntry& entry = *next++;
    const MatmulKernel kernel = kernel_for(type, exact);
    entry.fn = kernel.fn;
    entry.args.w_row_bytes = row_bytes;
    entry.args.k = cols;
    entry.args.x = prepare(x, kernel.format);
    entry.args.y = y.data;
    entry.args.y_stride = y.stride;
    entry.rows = rows;
    entry.block = rows_a_task(rows, row_bytes, n_matrices, x.f32().rows, pool_.n_threads());
    entry.n_blocks = (rows + entry.block - 1) / entry.block;
    entry.end_task = n_tasks += entry.n_blocks * n_matrices;
    return entry;
  };
  for (const GroupedProduct& product : grouped) {
    const QMatsView& w = *product.w;
    add(w.type, false, *product.x, product.y, w.rows, w.cols, w.row_bytes, product.grouping->n_groups).grouped =
        &product;
  }
  for (const Product& product : products) {
    const QMatView& w = product.w;
    KDA_CHECK(product.y.rows == product.x->f32().rows);
    PhaseEntry& entry = add(w.type, product.exact, *product.x, product.y, w.rows, w.cols, w.row_bytes, 1);
    entry.args.w = w.data;
    entry.args.n = product.y.rows;
  }

  for_tasks(n_tasks, [&](int64_t i, int thread) {
    const PhaseEntry* entry = entries;
    int64_t first = 0;
    while (i >= entry->end_task) first = (entry++)->end_task;
    const int64_t task = i - first;
    const int64_t block = task % entry->n_blocks;
    MatmulArgs args = entry->args;
    args.row_begin = block * entry->block;
    args.row_end = std::min(entry->rows, args.row_begin + entry->block);
    args.scratch = scratch(thread);
    if (entry->grouped != nullptr) {
      const Grouping& grouping = *entry->grouped->grouping;
      const int64_t group = task / entry->n_blocks;
      const int32_t begin = grouping.begin[group];
      args.w = entry->grouped->w->data[static_cast<size_t>(grouping.matrix[group])];
      args.n = grouping.begin[group + 1] - begin;
      args.x_rows = grouping.x_rows + begin;
      args.y_rows = grouping.y_rows + begin;
    }
    entry->fn(args);
  });
}

// --- experts ---

namespace {

// Picks the n_used largest of choice[0, n), the lower index on ties, in falling order; picked entries become -inf.
void pick_largest(float* choice, int64_t n, int64_t n_used, int32_t* picked) {
  for (int64_t slot = 0; slot < n_used; ++slot) {
    int64_t best = 0;
    for (int64_t e = 1; e < n; ++e) {
      if (choice[e] > choice[best]) best = e;
    }
    picked[slot] = static_cast<int32_t>(best);
    choice[best] = -std::numeric_limits<float>::infinity();
  }
}

// Sets the choice of all experts outside the best groups to 0, as the published code does. A group counts as the sum of
// its two largest entries; of equal groups the lower one is kept. scores [n_groups] is scratch.
void drop_groups(float* choice, int64_t n_experts, int64_t n_groups, int64_t n_groups_used, float* scores) {
  const int64_t size = n_experts / n_groups;
  for (int64_t group = 0; group < n_groups; ++group) {
    float first = -std::numeric_limits<float>::infinity();
    float second = first;
    for (int64_t e = group * size; e < (group + 1) * size; ++e) {
      if (choice[e] > first) {
        second = first;
        first = choice[e];
      } else {
        second = std::max(second, choice[e]);
      }
    }
    scores[group] = size == 1 ? first : first + second;
  }
  for (int64_t group = 0; group < n_groups; ++group) {
    int64_t n_better = 0;
    for (int64_t other = 0; other < n_groups; ++other) {
      if (scores[other] > scores[group] || (scores[other] == scores[group] && other < group)) ++n_better;
    }
    if (n_better >= n_groups_used) std::fill_n(choice + group * size, size, 0.0F);
  }
}

// Counting sort of all (token, slot) pairs by expert; within an expert they stay in order.
void sort_by_expert(Routing& routing, int64_t n_tokens, int64_t n_used, int64_t n_experts, int32_t* count) {
  std::fill_n(count, n_experts, 0);
  for (int64_t i = 0; i < n_tokens * n_used; ++i) ++count[routing.experts[i]];
  routing.n_groups = 0;
  int32_t begin = 0;
  for (int64_t e = 0; e < n_experts; ++e) {
    const int32_t n = count[e];
    count[e] = begin;
    if (n == 0) continue;
    routing.matrix[routing.n_groups] = static_cast<int32_t>(e);
    routing.begin[routing.n_groups++] = begin;
    begin += n;
  }
  routing.begin[routing.n_groups] = begin;
  for (int64_t i = 0; i < n_tokens * n_used; ++i) {
    const int32_t at = count[routing.experts[i]]++;
    routing.tokens[at] = static_cast<int32_t>(i / n_used);
    routing.slots[at] = static_cast<int32_t>(i);
  }
}

}  // namespace

void CpuOps::route(const RouteOp& op, Routing& routing) {
  const int64_t n_experts = op.scores.cols;
  for_rows(op.scores.rows, 4 * n_experts, [&](int64_t t, int thread) {
    auto* choice = reinterpret_cast<float*>(scratch(thread));
    float* score = op.scores.row(t);
    int32_t* picked = routing.experts + t * op.n_used;
    float* weights = routing.weights + t * op.n_used;
    kernels_.sigmoid(score, n_experts, score);
    for (int64_t e = 0; e < n_experts; ++e) choice[e] = score[e] + op.bias[static_cast<size_t>(e)];
    if (op.n_groups_used < op.n_groups) {
      drop_groups(choice, n_experts, op.n_groups, op.n_groups_used, choice + n_experts);
    }
    pick_largest(choice, n_experts, op.n_used, picked);
    float sum = 0;
    for (int64_t j = 0; j < op.n_used; ++j) sum += weights[j] = score[picked[j]];
    const float scale = op.renormalize && op.n_used > 1 ? 1 / (sum + 1e-20F) : 1;
    for (int64_t j = 0; j < op.n_used; ++j) weights[j] = weights[j] * scale * op.factor;
  });
  sort_by_expert(routing, op.scores.rows, op.n_used, n_experts, reinterpret_cast<int32_t*>(scratch(0)));
}

void CpuOps::combine(const MatView& y, const float* weights, int64_t n_used, const MatView& out) {
  for_rows(out.rows, out.cols * n_used, [&](int64_t t, int) {
    float* to = out.row(t);
    std::fill_n(to, out.cols, 0.0F);
    for (int64_t j = 0; j < n_used; ++j) {
      kernels_.axpy(weights[t * n_used + j], y.row(t * n_used + j), out.cols, to);
    }
  });
}

}  // namespace kda
