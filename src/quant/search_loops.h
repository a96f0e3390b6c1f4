// The functions of a SearchTable, in the instruction set of the file that includes this. Candidates lie in the lanes:
// the sums of each run over the elements in order, no sum crosses lanes.
#pragma once

#include "quant/blocks.h"
#include "quant/lanes.h"
#include "quant/search.h"

namespace kda {
namespace {

/// Sums of floats are good to some of the last bits; a candidate has to win by more than that, or blocks that a plain
/// choice reproduces exactly would get another one that only looks as good.
constexpr float kMargin = 1e-6F;

KDA_INLINE F8 clamp8(const F8& x, float low, float high) { return smaller8(larger8(x, set8(low)), set8(high)); }

/// Best of 8 * kVectors scales, given by their inverses, the first one favoured. For given codes l the error
/// sum w (x - s l)^2 is least at s = sum(w x l) / sum(w l^2), and the least error is at the largest
/// sum(w x l)^2 / sum(w l^2).
template <int kVectors, typename CodeOf>
KDA_INLINE float best_scale(const float* x, const float* w, int n, const float* inverses, const CodeOf& code_of) {
  F8 inverse[kVectors];
  F8 xl[kVectors];
  F8 ll[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    inverse[v] = load8(inverses + 8 * v);
    xl[v] = ll[v] = set8(0);
  }
  for (int i = 0; i < n; ++i) {
    const F8 xi = set8(x[i]);
    const F8 wi = set8(w[i]);
    const F8 wxi = set8(w[i] * x[i]);
    for (int v = 0; v < kVectors; ++v) {
      const F8 l = code_of(xi * inverse[v]);
      xl[v] = xl[v] + wxi * l;
      ll[v] = ll[v] + wi * l * l;
    }
  }
  float best_score = 0;
  float best = 0;
  for (int v = 0; v < kVectors; ++v) {
    float scores[8];
    float scales[8];
    const F8 scale = select_less8(set8(0), ll[v], xl[v] / ll[v], set8(0));
    store8(scales, scale);
    store8(scores, scale * xl[v]);
    for (int c = 0; c < 8; ++c) {
      if (scores[c] > best_score * (1 + kMargin)) {
        best_score = scores[c];
        best = scales[c];
      }
    }
  }
  return best;
}

/// The signed element of largest magnitude, the first one on ties.
KDA_INLINE float extreme(const float* x, int n) {
  float m = 0;
  for (int i = 0; i < n; ++i) {
    const float a = x[i] < 0 ? -x[i] : x[i];
    if (a > (m < 0 ? -m : m)) m = x[i];
  }
  return m;
}

/// The largest element may land a little beside either end of the range of codes, which reaches further below zero.
float symmetric_scale(const float* x, const float* w, int n, int half) {
  const float m = extreme(x, n);
  if (m == 0) return 0;
  float inverses[24];
  const auto end = static_cast<float>(half);
  for (int c = 0; c < 24; ++c) {
    inverses[c] = c < 16 ? -(end + 0.125F * static_cast<float>(c < 9 ? -c : c - 8)) / m
                         : (end - 1 + 0.125F * static_cast<float>(c - 19)) / m;
  }
  return best_scale<3>(x, w, n, inverses, [&](const F8& v) { return round8(clamp8(v, -end, end - 1)); });
}

/// IQ4: the levels, and for the nearest one (the lower on ties) the middles between them. Made at compile time, so that
/// the table of blocks.h leaves no symbol here.
struct Iq4 {
  float level[16] = {};
  Ranks middles = {};
  constexpr Iq4() {
    for (int k = 0; k < 16; ++k) level[k] = static_cast<float>(kIq4Levels[k]);
    for (int k = 0; k < 8; ++k) middles.fourth[k] = middle(2 * k);
    for (int k = 0; k < 4; ++k) middles.third[k] = middle(4 * k + 1);
    for (int k = 0; k < 2; ++k) middles.second[k] = middle(8 * k + 3);
    middles.first[0] = middle(7);
  }
  [[nodiscard]] constexpr float middle(int k) const { return 0.5F * (level[k] + level[k + 1]); }
};
constexpr Iq4 kIq4;

KDA_INLINE F8 iq4_codes8(const F8& v) { return rank8(kIq4.middles, v); }
KDA_INLINE F8 iq4_levels8(const F8& codes) { return look_up8(kIq4.level, codes); }

/// The element of largest magnitude lands on +127, or near the lowest level.
float iq4_scale(const float* x, const float* w, int n) {
  const float m = extreme(x, n);
  if (m == 0) return 0;
  float inverses[16];
  inverses[0] = 127 / m;
  for (int c = 1; c < 16; ++c) inverses[c] = (static_cast<float>(c - 8) - 127) / m;
  return best_scale<2>(x, w, n, inverses, [](const F8& v) { return iq4_levels8(iq4_codes8(v)); });
}

struct ScaleMinSums {
  float w = 0;
  float x = 0;
  float xx = 0;
};

/// Best of 16 inverse scales for codes of x - low, each with the scale and minimum of least squares for its codes:
/// the solution of two linear equations. Replaces best when better.
KDA_INLINE void improve_scale_min(const float* x, const float* w, int n, float low, const float* inverses, int top,
                                  bool min_below_zero, const ScaleMinSums& sums, ScaleMin& best, float& best_error) {
  F8 l1[2];
  F8 ll[2];
  F8 xl[2];
  for (int v = 0; v < 2; ++v) l1[v] = ll[v] = xl[v] = set8(0);
  const F8 inverse[2] = {load8(inverses), load8(inverses + 8)};
  for (int i = 0; i < n; ++i) {
    const F8 shifted = set8(x[i] - low);
    const F8 wi = set8(w[i]);
    const F8 wxi = set8(w[i] * x[i]);
    for (int v = 0; v < 2; ++v) {
      const F8 l = round8(clamp8(shifted * inverse[v], 0, static_cast<float>(top)));
      const F8 wl = wi * l;
      l1[v] = l1[v] + wl;
      ll[v] = ll[v] + wl * l;
      xl[v] = xl[v] + wxi * l;
    }
  }
  const F8 zero = set8(0);
  const F8 sw = set8(sums.w);
  const F8 sx = set8(sums.x);
  for (int v = 0; v < 2; ++v) {
    const F8 determinant = sw * ll[v] - l1[v] * l1[v];
    // Rounding makes the determinant of equal codes anything near 0.
    const F8 singular_below = set8(1e-5F) * sw * ll[v];
    F8 scale = (sw * xl[v] - l1[v] * sx) / determinant;
    F8 offset = (ll[v] * sx - l1[v] * xl[v]) / determinant;
    if (min_below_zero) {
      scale = select_less8(zero, offset, xl[v] / ll[v], scale);
      offset = smaller8(offset, zero);
    }
    // sum w (x - scale l - offset)^2
    const F8 two = set8(2);
    F8 error = set8(sums.xx) + scale * scale * ll[v] + sw * offset * offset - two * scale * xl[v] - two * offset * sx +
               two * scale * offset * l1[v];
    error = select_less8(singular_below, determinant, error, set8(3e38F));
    float scales[8];
    float offsets[8];
    float errors[8];
    store8(scales, scale);
    store8(offsets, offset);
    store8(errors, error);
    for (int c = 0; c < 8; ++c) {
      if (errors[c] < best_error - kMargin * sums.xx) {
        best_error = errors[c];
        best = {scales[c], -offsets[c]};
      }
    }
  }
}

ScaleMin scale_min(const float* x, const float* w, int n, int top, bool min_below_zero) {
  float low = x[0];
  float high = x[0];
  ScaleMinSums sums;
  for (int i = 0; i < n; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    sums.w += w[i];
    sums.x += w[i] * x[i];
    sums.xx += w[i] * x[i] * x[i];
  }
  if (min_below_zero && low > 0) low = 0;
  const float range = high - low;
  if (!(range > 1e-12F)) return {0, -low};
  const auto end = static_cast<float>(top);
  ScaleMin best{range / end, -low};
  float best_error = 3e38F;
  float inverses[16];
  for (int c = 0; c < 16; ++c) {
    inverses[c] = (end + 0.15F * static_cast<float>(c < 11 ? -c : c - 10)) / range;
  }
  improve_scale_min(x, w, n, low, inverses, top, min_below_zero, sums, best, best_error);
  if (!(best.scale > 1e-12F)) return best;
  low = -best.min;
  for (int c = 0; c < 16; ++c) inverses[c] = (1 + 0.1F * static_cast<float>(c - 7) / end) / best.scale;
  improve_scale_min(x, w, n, low, inverses, top, min_below_zero, sums, best, best_error);
  return best;
}

/// A scale too small to divide by counts as zero.
constexpr float kSmallestDivisor = 1e-35F;

/// level_of(quotients) are the levels of the nearest codes.
template <typename LevelOf>
KDA_INLINE int best_of_8(const float* x, const float* w, int n, const float (&scales)[8], const float (&mins)[8],
                         const LevelOf& level_of) {
  const F8 zero = set8(0);
  const F8 scale = load8(scales);
  const F8 min = load8(mins);
  const F8 size = larger8(scale, zero - scale);
  const F8 inverse = select_less8(size, set8(kSmallestDivisor), zero, set8(1) / scale);
  F8 error[2] = {zero, zero};  // of even and odd elements: two sums to add to in turn
  for (int i = 0; i < n; i += 2) {
    for (int k = 0; k < 2; ++k) {
      const F8 shifted = set8(x[i + k]) + min;
      const F8 rest = shifted - scale * level_of(shifted * inverse);
      error[k] = error[k] + set8(w[i + k]) * rest * rest;
    }
  }
  float errors[8];
  store8(errors, error[0] + error[1]);
  int best = 0;
  for (int c = 1; c < 8; ++c) {
    if (errors[c] < errors[best] * (1 - kMargin)) best = c;
  }
  return best;
}

int best_of_8(const float* x, const float* w, int n, const float (&scales)[8], const float (&mins)[8], int low,
              int high) {
  const auto first = static_cast<float>(low);
  const auto last = static_cast<float>(high);
  return best_of_8(x, w, n, scales, mins, [=](const F8& v) { return round8(clamp8(v, first, last)); });
}

int best_of_8_iq4(const float* x, const float* w, int n, const float (&scales)[8]) {
  const float no_mins[8] = {};
  return best_of_8(x, w, n, scales, no_mins, [](const F8& v) { return iq4_levels8(iq4_codes8(v)); });
}

/// Codes are what code_of makes of a quotient, and stand for level_of(code).
template <typename CodeOf, typename LevelOf>
KDA_INLINE CodeSums choose(const float* x, const float* w, int n, ScaleMin s, int8_t* codes, const CodeOf& code_of,
                           const LevelOf& level_of) {
  const float size = s.scale < 0 ? -s.scale : s.scale;
  const F8 inverse = set8(size < kSmallestDivisor ? 0 : 1 / s.scale);
  const F8 scale = set8(s.scale);
  const F8 min = set8(s.min);
  F8 l1 = set8(0);
  F8 ll = set8(0);
  F8 xl = set8(0);
  F8 error = set8(0);
  for (int i = 0; i < n; i += 8) {
    const F8 xi = load8(x + i);
    const F8 wi = load8(w + i);
    const F8 code = code_of((xi + min) * inverse);
    const F8 l = level_of(code);
    store_codes8(codes + i, code);
    const F8 wl = wi * l;
    const F8 rest = (xi + min) - scale * l;
    l1 = l1 + wl;
    ll = ll + wl * l;
    xl = xl + wl * xi;
    error = error + wi * rest * rest;
  }
  return {sum8(l1), sum8(ll), sum8(xl), sum8(error)};
}

CodeSums choose_codes(const float* x, const float* w, int n, ScaleMin s, int low, int high, int8_t* codes) {
  return choose(
      x, w, n, s, codes,
      [&](const F8& v) { return round8(clamp8(v, static_cast<float>(low), static_cast<float>(high))); },
      [](const F8& code) { return code; });
}

CodeSums choose_iq4_codes(const float* x, const float* w, int n, float scale, int8_t* codes) {
  return choose(
      x, w, n, {scale, 0}, codes, [](const F8& v) { return iq4_codes8(v); },
      [](const F8& code) { return iq4_levels8(code); });
}

void to_int8(const float* x, int n, float inverse, int8_t* codes) {
  const F8 factor = set8(inverse);
  for (int i = 0; i < n; i += 8) store_codes8(codes + i, round8(clamp8(load8(x + i) * factor, -127, 127)));
}

float max_magnitude(const float* x, int n) {
  F8 largest = set8(0);
  for (int i = 0; i < n; i += 8) {
    const F8 v = load8(x + i);
    largest = larger8(larger8(v, set8(0) - v), largest);
  }
  float lanes[8];
  store8(lanes, largest);
  float max = 0;
  for (const float lane : lanes) max = lane > max ? lane : max;
  return max;
}

constexpr SearchTable search_table(const char* name) {
  return {name,      symmetric_scale, iq4_scale,        scale_min, choose_codes,
          best_of_8, best_of_8_iq4,   choose_iq4_codes, to_int8,   max_magnitude};
}

}  // namespace
}  // namespace kda
