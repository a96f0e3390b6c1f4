// The inner loops of the encoders: which scale and codes fit best. One table for every instruction set; all
// give the same bits. Plain declarations only: files compiled with flags of their own include this header.
//
// All take values x of magnitude below 2 (encoders divide a block by a power of two) and weights w >= 0 of about 1, and
// judge by the weighted squared error. n is 16 or 32 unless said otherwise.
#pragma once

#include <cstdint>

namespace kda {

/// x ~ scale * code - min.
struct ScaleMin {
  float scale;
  float min;
};

/// What the codes l chosen for some values amount to.
struct CodeSums {
  float l;      // sum of w l
  float ll;     // sum of w l^2
  float xl;     // sum of w x l
  float error;  // sum of w (x - what the codes stand for)^2
};

struct SearchTable {
  const char* name;

  /// Scale, of either sign, for codes -half..half-1.
  float (*symmetric_scale)(const float* x, const float* w, int n, int half);

  /// Scale, of either sign, for the levels of IQ4.
  float (*iq4_scale)(const float* x, const float* w, int n);

  /// Scale and minimum for codes 0..top; with min_below_zero, no value stands for more than its code's share: min >= 0.
  ScaleMin (*scale_min)(const float* x, const float* w, int n, int top, bool min_below_zero);

  /// The codes low..high nearest to x under a given scale and minimum; 0, or the end of the range next to it, for scale
  /// 0.
  CodeSums (*choose_codes)(const float* x, const float* w, int n, ScaleMin s, int low, int high, int8_t* codes);

  /// Which of eight pairs of scale and minimum gives codes low..high with the least error, the first one favoured.
  int (*best_of_8)(const float* x, const float* w, int n, const float (&scales)[8], const float (&mins)[8], int low,
                   int high);

  /// The same for the levels of IQ4, without minima.
  int (*best_of_8_iq4)(const float* x, const float* w, int n, const float (&scales)[8]);

  /// choose_codes for the levels of IQ4 (sums are of levels, codes are 0..15).
  CodeSums (*choose_iq4_codes)(const float* x, const float* w, int n, float scale, int8_t* codes);

  /// Q8_0: n bytes x * inverse, n a multiple of 8.
  void (*to_int8)(const float* x, int n, float inverse, int8_t* codes);

  /// Largest magnitude of n values, n a multiple of 8.
  float (*max_magnitude)(const float* x, int n);
};

extern const SearchTable kBaselineSearch;
#if defined(__x86_64__)
extern const SearchTable kAvx2Search;  // callable only where the processor has AVX2
#endif

}  // namespace kda
