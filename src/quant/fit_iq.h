// The search that the IQ1, IQ2 and IQ3 encoders share. A format says how a group of values is put on its grid under a
// given scale; this finds the scales.
#pragma once

#include <algorithm>
#include <cmath>

#include "quant/encode.h"

namespace kda {

/// What a group was put on: grid rows and, for groups of eight, sign masks (IQ1: 1 for a shift down).
template <int kRows, int kMasks>
struct IqGroup {
  uint16_t rows[kRows];
  uint8_t masks[kMasks];
  float xl;     // sum of w x l, l what the row and masks stand for under scale 1
  float ll;     // sum of w l^2
  float error;  // sum of w (x - scale l)^2
};

/// Formats have: kGroup elements, kTopScale, kDivisor, kStarts, Group (an IqGroup) and
///   static Group place(const float* x, const float* w, float scale)
/// A group's values stand for d (2 s + 1) / kDivisor * l, s = 0..kTopScale.
template <typename Format>
struct IqFit {
  static constexpr int kGroups = 256 / Format::kGroup;
  using Group = typename Format::Group;
  uint16_t d;
  int scale[kGroups];
  Group groups[kGroups];
  float error;
};

template <typename Format>
IqFit<Format> fit_iq(const Scaled<256>& in) {
  using Fit = IqFit<Format>;
  using Group = typename Format::Group;
  constexpr int kSize = Format::kGroup;
  constexpr auto kTop = static_cast<float>(2 * Format::kTopScale + 1);
  const auto place = [&](int g, float scale) { return Format::place(in.x + g * kSize, in.w + g * kSize, scale); };

  // Each group alone: from the best of some usual ratios of scale and power on, the scale of least squares for the rows
  // chosen under the scale before.
  float scales[Fit::kGroups];
  float largest = 0;
  for (int g = 0; g < Fit::kGroups; ++g) {
    float power = 0;
    float sum = 0;
    for (int i = g * kSize; i < (g + 1) * kSize; ++i) {
      power += in.w[i] * in.x[i] * in.x[i];
      sum += in.w[i];
    }
    const float size = sum > 0 ? std::sqrt(power / sum) : 0;
    scales[g] = 0;
    float best_score = 0;
    const auto try_scale = [&](float scale) {
      const Group group = place(g, scale);
      // For these rows the least error is at scale xl / ll; it is least where xl^2 / ll is largest.
      if (!(group.ll > 0 && group.xl > 0 && group.xl * (group.xl / group.ll) > best_score)) return;
      best_score = group.xl * (group.xl / group.ll);
      scales[g] = group.xl / group.ll;
    };
    for (const float start : Format::kStarts) {
      if (size > 0) try_scale(start * size);
    }
    if (scales[g] > 0) try_scale(scales[g]);
    largest = std::max(largest, scales[g]);
  }

  // Then under the common scale as stored: the integers beside the nearest one compete too.
  const auto of_scale = [&](const Fit& f, int s) {
    return stored_scale(f.d, in) * static_cast<float>(2 * s + 1) / Format::kDivisor;
  };
  Fit best;
  best.d = to_scale(largest / kTop * Format::kDivisor * in.back);
  best.error = 0;
  const float step = of_scale(best, 0);
  for (int g = 0; g < Fit::kGroups; ++g) {
    const float ratio = step > 0 ? scales[g] / step : 0;
    const int near = static_cast<int>(std::nearbyint(std::clamp((ratio - 1) / 2, 0.0F, (kTop - 1) / 2)));
    best.scale[g] = near;
    best.groups[g] = place(g, of_scale(best, near));
    for (const int s : {near - 1, near + 1}) {
      if (s < 0 || s > Format::kTopScale || step == 0) continue;
      const Group group = place(g, of_scale(best, s));
      if (!(group.error < best.groups[g].error)) continue;
      best.scale[g] = s;
      best.groups[g] = group;
    }
    best.error += best.groups[g].error;
  }

  // The common scale of least squares, and rows for it.
  double xl = 0;
  double ll = 0;
  for (int g = 0; g < Fit::kGroups; ++g) {
    const double odd = 2 * best.scale[g] + 1;
    xl += odd * best.groups[g].xl;
    ll += odd * odd * best.groups[g].ll;
  }
  if (!(xl > 0 && ll > 0)) return best;
  Fit again = best;
  again.d = to_scale(static_cast<float>(xl / ll * Format::kDivisor) * in.back);
  again.error = 0;
  for (int g = 0; g < Fit::kGroups; ++g) {
    again.groups[g] = place(g, of_scale(again, again.scale[g]));
    again.error += again.groups[g].error;
  }
  return again.error < best.error ? again : best;
}

}  // namespace kda
