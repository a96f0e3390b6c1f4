#include "kernels/kernel_table.h"
#include "kernels/matmul_by_rows.h"
#include "kernels/scalar/scalar.h"

namespace kda {

const KernelTable& scalar_kernels() noexcept {
  static const KernelTable filled = [] {
    KernelTable table;
    table.name = "scalar";
    fill_matmul_f32<scalar::matmul_f32>(table);
    for (uint32_t type = 0; type < kTensorTypeCount; ++type) table.matmul[type].fn = table.matmul_f32[type];
    scalar::set_int8_products(table);
    table.quantize_block32 = scalar::quantize_block32;
    table.quantize_block256 = scalar::quantize_block256;
    table.kda_head = scalar::kda_head;
    table.mla_attend = scalar::mla_attend;
    table.mla_head = scalar::mla_head;
    table.rms_norm = scalar::rms_norm;
    table.silu_mul = scalar::silu_mul;
    table.silu = scalar::silu;
    table.sigmoid = scalar::sigmoid;
    table.axpy = scalar::axpy;
    table.conv_silu = scalar::conv_silu;
    table.scaled_softplus = scalar::scaled_softplus;
    return table;
  }();
  return filled;
}

}  // namespace kda
