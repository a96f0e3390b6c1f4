// Layout of every block format, byte for byte as files hold it (little-endian). Layout only: what the fields stand for
// is written beside the decoders in dequantize.cpp. Kernel files of any instruction set may include this header.
//
// Blocks follow each other without padding and start at any address: all structs are packed, so that the compiler reads
// their fields with unaligned loads.
#pragma once

#include <cstdint>

namespace kda {

#pragma pack(push, 1)

// Blocks of 32. Nibbles are split by halves: byte j holds element j (low) and element j + 16 (high).

struct BlockQ4_0 {
  uint16_t d;  // f16 scale
  uint8_t qs[16];
};
struct BlockQ4_1 {
  uint16_t d;  // f16 scale
  uint16_t m;  // f16 minimum, added
  uint8_t qs[16];
};
struct BlockQ5_0 {
  uint16_t d;   // f16 scale
  uint32_t qh;  // bit i: fifth bit of element i
  uint8_t qs[16];
};
struct BlockQ5_1 {
  uint16_t d;   // f16 scale
  uint16_t m;   // f16 minimum, added
  uint32_t qh;  // bit i: fifth bit of element i
  uint8_t qs[16];
};
struct BlockQ8_0 {
  uint16_t d;  // f16 scale
  int8_t qs[32];
};
struct BlockIQ4_NL {
  uint16_t d;  // f16 scale
  uint8_t qs[16];
};
struct BlockMXFP4 {
  uint8_t e;  // exponent of the scale, E8M0
  uint8_t qs[16];
};

// Longer blocks of one or two bits and of FP4.

struct BlockQ1_0 {  // 128 elements
  uint16_t d;       // f16
  uint8_t qs[16];   // bit i % 8 of byte i / 8
};
struct BlockQ2_0 {  // 64 elements
  uint16_t d;       // f16
  uint8_t qs[16];   // two bits, four neighbours a byte
};
struct BlockNVFP4 {  // 64 elements
  uint8_t d[4];      // UE4M3 scale of each 16
  uint8_t qs[32];    // 8 bytes a sub-block: byte j holds elements j and j + 8
};

// Super-blocks of 256.

struct BlockQ2_K {
  uint8_t scales[16];  // of each 16: scale (low nibble), minimum (high nibble)
  uint8_t qs[64];
  uint16_t d;     // f16 scale of the scales
  uint16_t dmin;  // f16 scale of the minima, subtracted
};
struct BlockQ3_K {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];  // 16 of 6 bits
  uint16_t d;          // f16
};
struct BlockQ4_K {
  uint16_t d;          // f16 scale of the scales
  uint16_t dmin;       // f16 scale of the minima, subtracted
  uint8_t scales[12];  // 8 scales and 8 minima of 6 bits
  uint8_t qs[128];
};
struct BlockQ5_K {
  uint16_t d;          // f16 scale of the scales
  uint16_t dmin;       // f16 scale of the minima, subtracted
  uint8_t scales[12];  // 8 scales and 8 minima of 6 bits
  uint8_t qh[32];
  uint8_t qs[128];
};
struct BlockQ6_K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];  // of each 16
  uint16_t d;         // f16
};
struct BlockIQ4_XS {
  uint16_t d;           // f16
  uint16_t scales_h;    // two high bits of each scale
  uint8_t scales_l[4];  // four low bits
  uint8_t qs[128];
};
struct BlockIQ2_XXS {
  uint16_t d;  // f16
  struct {
    uint8_t index[4];
    uint32_t signs_scale;
  } groups[8];  // of 32
};
struct BlockIQ2_XS {
  uint16_t d;       // f16
  uint16_t qs[32];  // of each 8: grid row (9 bits), sign index (7 bits)
  uint8_t scales[8];
};
struct BlockIQ2_S {
  uint16_t d;  // f16
  uint8_t qs[32];
  uint8_t signs[32];
  uint8_t qh[8];
  uint8_t scales[8];
};
struct BlockIQ3_XXS {
  uint16_t d;  // f16
  uint8_t qs[64];
  uint32_t signs_scale[8];
};
struct BlockIQ3_S {
  uint16_t d;  // f16
  uint8_t qs[64];
  uint8_t qh[8];
  uint8_t signs[32];
  uint8_t scales[4];
};
struct BlockIQ1_S {
  uint16_t d;  // f16
  uint8_t qs[32];
  uint16_t qh[8];
};
struct BlockIQ1_M {
  uint8_t qs[32];
  uint8_t qh[16];
  uint16_t scales[4];  // top nibbles together: the f16 scale
};
struct BlockTQ1_0 {
  uint8_t qs[48];  // five trits a byte
  uint8_t qh[4];   // four trits a byte
  uint16_t d;      // f16
};
struct BlockTQ2_0 {
  uint8_t qs[64];
  uint16_t d;  // f16
};

#pragma pack(pop)

static_assert(sizeof(BlockQ4_0) == 18);
static_assert(sizeof(BlockQ4_1) == 20);
static_assert(sizeof(BlockQ5_0) == 22);
static_assert(sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockQ8_0) == 34);
static_assert(sizeof(BlockIQ4_NL) == 18);
static_assert(sizeof(BlockMXFP4) == 17);
static_assert(sizeof(BlockQ1_0) == 18);
static_assert(sizeof(BlockQ2_0) == 18);
static_assert(sizeof(BlockNVFP4) == 36);
static_assert(sizeof(BlockQ2_K) == 84);
static_assert(sizeof(BlockQ3_K) == 110);
static_assert(sizeof(BlockQ4_K) == 144);
static_assert(sizeof(BlockQ5_K) == 176);
static_assert(sizeof(BlockQ6_K) == 210);
static_assert(sizeof(BlockIQ4_XS) == 136);
static_assert(sizeof(BlockIQ2_XXS) == 66);
static_assert(sizeof(BlockIQ2_XS) == 74);
static_assert(sizeof(BlockIQ2_S) == 82);
static_assert(sizeof(BlockIQ3_XXS) == 98);
static_assert(sizeof(BlockIQ3_S) == 110);
static_assert(sizeof(BlockIQ1_S) == 50);
static_assert(sizeof(BlockIQ1_M) == 56);
static_assert(sizeof(BlockTQ1_0) == 54);
static_assert(sizeof(BlockTQ2_0) == 66);

/// The 16 levels of IQ4_NL and IQ4_XS.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// The 16 values of E2M1 times two; code 8, minus zero, counts as zero.
inline constexpr int8_t kFp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace kda
