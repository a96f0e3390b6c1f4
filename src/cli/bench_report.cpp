#include "cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "arch/model_config.h"
#include "base/error.h"
#include "cli/output.h"
#include "weights/checkpoint.h"

namespace kda::cli {

namespace {

bool is_prompt(const BenchResult& result) { return result.test.kind == BenchTest::Kind::kPrompt; }

/// Whether its rate is held against that of reading memory.
bool has_bytes(const BenchResult& result) { return result.bytes > 0; }
std::string_view kind_name(const BenchResult& result) {
  switch (result.test.kind) {
    case BenchTest::Kind::kPrompt:
      return "prompt";
    case BenchTest::Kind::kGeneration:
      return "generation";
    case BenchTest::Kind::kEdit:
      return "edit";
    case BenchTest::Kind::kDraftedEdit:
      break;
  }
  return "drafted edit";
}

double lowest(const BenchResult& result) { return std::ranges::min(result.rates()); }
double highest(const BenchResult& result) { return std::ranges::max(result.rates()); }

/// Four digits, no exponent.
std::string digits(double value) {
  return fmt::format("{:.{}f}", value, value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3);
}

std::string model_name(const Engine& engine, const std::string& model) {
  const std::string& name = engine.config().name;
  return name.empty() ? model : name;
}

int64_t model_bytes(const Engine& engine) { return engine.checkpoint().mapped_bytes(); }

std::string about(const Engine& engine, const std::string& model) {
  return fmt::format("{}: {}, {} parameters; {} kernels", model_name(engine, model), human_bytes(model_bytes(engine)),
                     human_count(engine.checkpoint().n_parameters()), engine.isa());
}

/// A line of cells a result, for people.
constexpr std::array kHeadings = {"test",   "threads", "batch",   "tokens/s", "min .. max",
                                  "GMAC/s", "GB/s",    "of read", "logits"};
using Cells = std::array<std::string, kHeadings.size()>;

Cells cells(const BenchSetting& setting, const BenchResult& r) {
  Cells out = {r.test.name(),
               fmt::format("{}", setting.threads),
               is_prompt(r) ? fmt::format("{}", setting.batch_tokens) : "1",
               digits(median(r.rates())),
               digits(lowest(r)) + " .. " + digits(highest(r)),
               "",
               "",
               "",
               fmt::format("{:016x}", r.logits_checksum)};
  if (is_prompt(r)) {
    out[5] = digits(r.mac_rate() / 1e9);
  } else if (has_bytes(r)) {
    out[6] = digits(r.byte_rate() / 1e9);
    out[7] = fmt::format("{:.0f} %", 100 * r.byte_rate() / r.read_rate);
  }
  return out;
}

class TableReport : public BenchReport {
 public:
  void begin(const Engine& engine, const std::string& model) override {
    write_output(about(engine, model) + '\n');
    line({kHeadings.begin(), kHeadings.end()});
  }
  void add(const BenchSetting& setting, const BenchResult& result) override {
    const Cells row = cells(setting, result);
    line({row.begin(), row.end()});
    read_rate_ = std::max(read_rate_, result.read_rate);
  }
  void end(bool complete) override {
    if (read_rate_ > 0) {
      write_output(fmt::format("memory reads {} GB/s\n", digits(read_rate_ / 1e9)));
    }
    if (!complete) write_output("interrupted: not all tests were run\n");
  }

 private:
  static void line(const std::vector<std::string>& row) {
    constexpr std::array kWidths = {16, 7, 6, 9, 18, 7, 7, 7, 16};
    std::string text = fmt::format("{:<{}}", row[0], kWidths[0]);
    for (size_t i = 1; i < row.size(); ++i) text += fmt::format("  {:>{}}", row[i], kWidths[i]);
    write_output(text + '\n');
  }

  double read_rate_ = 0;
};

class MarkdownReport : public BenchReport {
 public:
  void begin(const Engine& engine, const std::string& model) override {
    write_output(about(engine, model) + "\n\n");
    line({kHeadings.begin(), kHeadings.end()});
    line({"---", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---"});
  }
  void add(const BenchSetting& setting, const BenchResult& result) override {
    const Cells row = cells(setting, result);
    line({row.begin(), row.end()});
  }
  void end(bool complete) override {
    if (!complete) write_output("\nInterrupted: not all tests were run.\n");
  }

 private:
  static void line(const std::vector<std::string>& row) {
    write_output(fmt::format("| {} |\n", fmt::join(row, " | ")));
  }
};

class CsvReport : public BenchReport {
 public:
  void begin(const Engine& engine, const std::string& model) override {
    isa_ = engine.isa();
    model_ = quoted(model_name(engine, model));
    model_bytes_ = model_bytes(engine);
    write_output(
        "model,model_bytes,isa,test,kind,tokens,sequences,depth,threads,batch,repetitions,tokens_per_second,"
        "tokens_per_second_min,tokens_per_second_max,macs_per_second,bytes_per_second,read_bytes_per_second,"
        "logits_xxh64\n");
  }
  void add(const BenchSetting& setting, const BenchResult& r) override {
    const bool prompt = is_prompt(r);
    write_output(fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{},{},{},{:016x}\n", model_, model_bytes_, isa_,
        r.test.name(), kind_name(r), r.test.n_tokens, r.test.n_sequences, r.test.depth, setting.threads,
        prompt ? setting.batch_tokens : 1, r.seconds.size(), median(r.rates()), lowest(r), highest(r),
        prompt ? fmt::format("{:.6g}", r.mac_rate()) : "", has_bytes(r) ? fmt::format("{:.6g}", r.byte_rate()) : "",
        has_bytes(r) ? fmt::format("{:.6g}", r.read_rate) : "", r.logits_checksum));
  }
  void end(bool) override {}

 private:
  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    return out + '"';
  }

  std::string model_, isa_;
  int64_t model_bytes_ = 0;
};

class JsonReport : public BenchReport {
 public:
  void begin(const Engine& engine, const std::string& model) override {
    json_["engine"] = "kda " KDA_VERSION;
    json_["model"] = model_name(engine, model);
    json_["model_bytes"] = model_bytes(engine);
    json_["parameters"] = engine.checkpoint().n_parameters();
    json_["isa"] = engine.isa();
  }
  void add(const BenchSetting& setting, const BenchResult& r) override {
    OrderedJson row;
    row["test"] = r.test.name();
    row["kind"] = kind_name(r);
    row["tokens"] = r.test.n_tokens;
    row["sequences"] = r.test.n_sequences;
    row["depth"] = r.test.depth;
    row["threads"] = setting.threads;
    row["batch"] = is_prompt(r) ? setting.batch_tokens : 1;
    row["tokens_per_second"] = median(r.rates());
    row["tokens_per_second_min"] = lowest(r);
    row["tokens_per_second_max"] = highest(r);
    row["seconds"] = r.seconds;
    if (is_prompt(r)) {
      row["macs"] = r.macs;
      row["macs_per_second"] = r.mac_rate();
    } else if (has_bytes(r)) {
      row["bytes"] = r.bytes;
      row["bytes_per_second"] = r.byte_rate();
      row["read_bytes_per_second"] = r.read_rate;
    }
    row["logits_xxh64"] = fmt::format("{:016x}", r.logits_checksum);
    rows_.push_back(std::move(row));
  }
  void end(bool complete) override {
    json_["complete"] = complete;
    json_["rows"] = std::move(rows_);
    write_output(json_text(json_, 2) + '\n');
  }

 private:
  OrderedJson json_;
  OrderedJson rows_ = OrderedJson::array();
};

}  // namespace

std::unique_ptr<BenchReport> BenchReport::make(const std::string& format) {
  if (format == "json") return std::make_unique<JsonReport>();
  if (format == "csv") return std::make_unique<CsvReport>();
  if (format == "markdown") return std::make_unique<MarkdownReport>();
  KDA_CHECK(format == "table");
  return std::make_unique<TableReport>();
}

}  // namespace kda::cli
