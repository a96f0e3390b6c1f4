// Products of quantised weights with int8 activations. With w ~ d * code (+ m) and x ~ scale * a, block by block:
//   blocks of 32    y += (d * scale) * sum(code * a)  [ + m * (scale * sum(a)) ]
//   super-blocks    y += (d * scale) * sum_g group_scale_g * sum(code * a)  [ - (dmin * scale) * sum_g min_g * sum_g(a)
//   ]
// The inner sums are exact in int32: at most 256 * (127 * 32) * 127 = 1.3e8 (IQ4_XS, Q6_K).
#include "kernels/scalar/scalar.h"
#include "quant/unpack.h"

namespace kda::scalar {

namespace {

// Activation rows that share one unpacking of a block.
constexpr int64_t kTile = 8;

template <typename Block>
struct Codec32 {
  static constexpr int64_t kElements = 32;

  explicit Codec32(const Block& block) { unpack(block, u); }

  void add_product(const int8_t* a, float scale, const int16_t* sums, float& y) const {
    int32_t total = 0;
    for (int i = 0; i < 32; ++i) total += u.code[i] * a[i];
    y += u.d * scale * static_cast<float>(total);
    if constexpr (kHasMin<Block>) y += u.m * (scale * static_cast<float>(sums[0] + sums[1]));
  }

  Unpacked32 u;
};

template <typename Block>
struct Codec256 {
  static constexpr int64_t kElements = 256;

  explicit Codec256(const Block& block) {
    unpack(block, u);
    for (int i = 0; i < 256; ++i) weight[i] = static_cast<int16_t>(u.scale[i / 16] * u.code[i]);
  }

  void add_product(const int8_t* a, float scale, const int16_t* sums, float& y) const {
    int32_t total = 0;
    for (int i = 0; i < 256; ++i) total += weight[i] * a[i];
    y += u.d * scale * static_cast<float>(total);
    if constexpr (kHasMin<Block>) {
      int32_t min = 0;
      for (int g = 0; g < 16; ++g) min += u.min[g] * sums[g];
      y -= u.dmin * scale * static_cast<float>(min);
    }
  }

  Unpacked256 u;
  int16_t weight[256];  // code times the scale of its group
};

template <typename Codec, typename Block>
void matmul(const MatmulArgs& args) {
  constexpr int64_t kElements = Codec::kElements;
  const int64_t n_blocks = args.k / kElements;
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const auto* blocks = reinterpret_cast<const Block*>(args.w + r * args.w_row_bytes);
    for (int64_t begin = 0; begin < args.n; begin += kTile) {
      const int64_t n = args.n - begin < kTile ? args.n - begin : kTile;
      int64_t x_row[kTile] = {};
      float y[kTile] = {};
      for (int64_t i = 0; i < n; ++i) x_row[i] = args.x_rows != nullptr ? args.x_rows[begin + i] : begin + i;
      for (int64_t b = 0; b < n_blocks; ++b) {
        const Codec block(blocks[b]);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t start = x_row[i] * args.k + b * kElements;
          block.add_product(args.x.codes + start, args.x.scales[x_row[i] * n_blocks + b], args.x.sums + start / 16,
                            y[i]);
        }
      }
      for (int64_t i = 0; i < n; ++i) {
        const int64_t y_row = args.y_rows != nullptr ? args.y_rows[begin + i] : begin + i;
        args.y[y_row * args.y_stride + r] = y[i];
      }
    }
  }
}

}  // namespace

void set_int8_products(KernelTable& table) {
  const auto set32 = [&table]<typename Block>(TensorType type, Block) {
    table.matmul[static_cast<uint32_t>(type)] = {matmul<Codec32<Block>, Block>, ActFormat::kQ8Block32};
  };
  const auto set256 = [&table]<typename Block>(TensorType type, Block) {
    table.matmul[static_cast<uint32_t>(type)] = {matmul<Codec256<Block>, Block>, ActFormat::kQ8Block256};
  };
  set32(TensorType::kQ4_0, BlockQ4_0{});
  set32(TensorType::kQ4_1, BlockQ4_1{});
  set32(TensorType::kQ5_0, BlockQ5_0{});
  set32(TensorType::kQ5_1, BlockQ5_1{});
  set32(TensorType::kQ8_0, BlockQ8_0{});
  set32(TensorType::kIQ4_NL, BlockIQ4_NL{});
  set32(TensorType::kMXFP4, BlockMXFP4{});
  set256(TensorType::kQ2_K, BlockQ2_K{});
  set256(TensorType::kQ3_K, BlockQ3_K{});
  set256(TensorType::kQ4_K, BlockQ4_K{});
  set256(TensorType::kQ5_K, BlockQ5_K{});
  set256(TensorType::kQ6_K, BlockQ6_K{});
  set256(TensorType::kIQ4_XS, BlockIQ4_XS{});
}

}  // namespace kda::scalar
