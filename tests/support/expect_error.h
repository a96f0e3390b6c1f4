// Errors as tests look at them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace kda::test {

/// Runs `action` and checks that it throws Error with this code and with `part` in its message.
template <typename Action>
void expect_error(ErrorCode code, const std::string& part, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "no error, expected: " << part;
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(code)) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << "found: " << e.what() << "\nexpected: " << part;
  }
}

}  // namespace kda::test
