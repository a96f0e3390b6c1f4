// Results of kda bench on standard output.
#pragma once

#include <memory>
#include <string>

#include "engine/engine.h"
#include "formats/json.h"
#include "measure/benchmark.h"

namespace kda::cli {

/// What a row is about beside its test.
struct BenchSetting {
  int threads = 0;
  int64_t batch_tokens = 0;
};

/// Rows are written as they come, but for JSON, where all are one object.
class BenchReport {
 public:
  virtual ~BenchReport() = default;

  /// "table", "json", "csv" or "markdown".
  [[nodiscard]] static std::unique_ptr<BenchReport> make(const std::string& format);

  /// Once, before the first row. model: as the user named it.
  virtual void begin(const Engine& engine, const std::string& model) = 0;
  virtual void add(const BenchSetting& setting, const BenchResult& result) = 0;
  /// No more rows; complete: false when the user stopped it.
  virtual void end(bool complete) = 0;
};

}  // namespace kda::cli
