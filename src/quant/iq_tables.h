// The codebooks of the IQ formats: which groups of magnitudes (IQ1: of trits) a stored index stands for.
//
// A row is packed into 16 bits: entry j of a row of eight is level (row >> 2 * j) & 3, of a row of four (row >> 3 * j)
// & 7. The levels are the same for all rows of a grid.
#pragma once

#include <cstdint>

namespace kda {

extern const uint16_t kIq2XxsGrid[256];  // rows of 8
extern const uint16_t kIq2XsGrid[512];   // rows of 8
extern const uint16_t kIq2SGrid[1024];   // rows of 8
extern const uint16_t kIq3XxsGrid[256];  // rows of 4
extern const uint16_t kIq3SGrid[512];    // rows of 4
extern const uint16_t kIq1SGrid[2048];   // rows of 8, for IQ1_S and IQ1_M

inline constexpr float kIq2Levels[4] = {8, 25, 43, 0};  // 3 does not occur in a row
inline constexpr float kIq3XxsLevels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr float kIq3SLevels[8] = {1, 3, 5, 7, 9, 11, 13, 15};
inline constexpr float kIq1Levels[4] = {-1, 0, 1, 0};  // 3 does not occur in a row

/// Shift of every trit of IQ1, its sign stored.
inline constexpr float kIq1Delta = 0.125F;

}  // namespace kda
