// The forward pass against the NumPy reference, on checkpoints that vary every dimension. See README.md.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "engine/engine.h"
#include "kernels/kernel_table.h"
#include "layers/tensor_sink.h"

namespace kda {
namespace {

namespace fs = std::filesystem;

// The data of a .npy file (version 1 or 2) whose element type the caller knows.
template <typename T>
std::vector<T> read_npy(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (bytes.size() < 12) throw std::runtime_error("not an array: " + path.string());
  uint16_t header_size = 0;
  std::memcpy(&header_size, bytes.data() + 8, 2);
  const size_t begin = size_t{10} + header_size;
  std::vector<T> values((bytes.size() - begin) / sizeof(T));
  std::memcpy(values.data(), bytes.data() + begin, values.size() * sizeof(T));
  return values;
}

double relative_error(const std::vector<float>& actual, const std::vector<float>& expected) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = double{actual[i]} - double{expected[i]};
    error += difference * difference;
    size += double{expected[i]} * double{expected[i]};
  }
  return std::sqrt(error / size);
}

std::string no_environment(const char*) { return {}; }

struct Param {
  const char* name;
  const char* isa;

  friend void PrintTo(const Param& param, std::ostream* out) { *out << param.name << ", " << param.isa; }
};

class Golden : public testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    folder_ = fs::path(KDA_GOLDEN_DIR) / GetParam().name;
    if (!fs::exists(folder_ / "logits.npy")) GTEST_SKIP() << "not generated: python3-numpy is missing, or run ctest";
    const std::string isa = GetParam().isa;
    if ((isa == "avx2" && !cpu_features().avx2) || (isa == "avx512" && !cpu_features().avx512)) {
      GTEST_SKIP() << "no " << isa << " here";
    }
    ids_ = read_npy<int32_t>(folder_ / "ids.npy");
    expected_ = read_npy<float>(folder_ / "logits.npy");
  }

  std::unique_ptr<Engine> open(int threads, int64_t batch_tokens, int64_t expand_mla_from = 0) const {
    return Engine::open(
        folder_.string(),
        {.threads = threads, .isa = GetParam().isa, .batch_tokens = batch_tokens, .expand_mla_from = expand_mla_from},
        no_environment);
  }

  // Logits of all tokens, fed in parts of the given sizes (the last one is repeated).
  std::vector<float> run(const Engine& engine, const std::vector<size_t>& parts, TensorSink* sink = nullptr) const {
    const auto sequence = engine.new_sequence(static_cast<int64_t>(ids_.size()));
    std::vector<float> logits;
    int64_t next_position = 0;
    for (size_t done = 0, part = 0; done < ids_.size(); ++part) {
      const size_t n = std::min(ids_.size() - done, parts[std::min(part, parts.size() - 1)]);
      sequence->feed_all_logits(
          std::span(ids_).subspan(done, n),
          [&](int64_t position, std::span<const float> row) {
            EXPECT_EQ(position, next_position++);
            logits.insert(logits.end(), row.begin(), row.end());
          },
          sink);
      done += n;
    }
    return logits;
  }

  fs::path folder_;
  std::vector<int32_t> ids_;
  std::vector<float> expected_;
};

TEST_P(Golden, LogitsAgreeWithTheReference) {
  for (const int64_t expand_from : {int64_t{1}, EngineOptions::kNever}) {
    const auto engine = open(2, 512, expand_from);
    const std::vector<float> logits = run(*engine, {ids_.size()});
    ASSERT_EQ(logits.size(), expected_.size());
    const double error = relative_error(logits, expected_);
    std::cout << GetParam().name << ", " << GetParam().isa << (expand_from == 1 ? ", expanded" : ", absorbed")
              << ": relative error of the logits " << error << "\n";
    EXPECT_LT(error, 2e-6);
  }
}

TEST_P(Golden, BitsOfOneFormOfAttentionDependNeitherOnTheCutsOfThePromptNorOnTheThreads) {
  std::mt19937 random(1);
  std::vector<size_t> random_parts;
  for (size_t i = 0; i < 40; ++i) random_parts.push_back(1 + random() % 40);
  for (const int64_t form : {int64_t{1}, EngineOptions::kNever}) {
    const std::vector<float> once = run(*open(1, 512, form), {ids_.size()});
    for (const int threads : {1, 2, 3, 7}) {  // more threads than processors: few, larger parts, or it takes minutes
      EXPECT_EQ(run(*open(threads, 512, form), {ids_.size()}), once) << threads << " threads, whole";
      EXPECT_EQ(run(*open(threads, 512, form), random_parts), once) << threads << " threads, random parts";
      if (threads > 2 || form == 1) continue;
      EXPECT_EQ(run(*open(threads, 512, form), {1}), once) << threads << " threads, token by token";
      EXPECT_EQ(run(*open(threads, 13, form), {ids_.size()}), once) << threads << " threads, batches of 13";
    }
  }
}

TEST_P(Golden, AMixOfBothFormsOfAttentionAgreesWithTheReference) {
  const std::vector<float> logits = run(*open(2, 512, 20), {7, 25, 1, 1, 30, 3, 21});
  EXPECT_LT(relative_error(logits, expected_), 2e-6);
  EXPECT_EQ(run(*open(3, 512, 20), {7, 25, 1, 1, 30, 3, 21}), logits);
}

TEST_P(Golden, EveryIntermediateAgreesWithTheReference) {
  struct Collector : TensorSink {
    void put(std::string_view name, std::span<const int64_t> shape, const float* values) override {
      int64_t n = 1;
      for (const int64_t d : shape) n *= d;
      auto& all = tensors[std::string(name)];
      all.insert(all.end(), values, values + n);
    }
    std::map<std::string, std::vector<float>> tensors;
  } sink;
  (void)run(*open(2, 50), {ids_.size()}, &sink);

  double worst = 0;
  std::string worst_name;
  for (const auto& entry : fs::directory_iterator(folder_ / "trace")) {
    const std::string name = entry.path().stem().string();
    const auto found = sink.tensors.find(name);
    ASSERT_NE(found, sink.tensors.end()) << name << " was not given to the sink";
    const std::vector<float> expected = read_npy<float>(entry.path());
    ASSERT_EQ(found->second.size(), expected.size()) << name;
    if (name.ends_with(".experts")) {
      EXPECT_EQ(found->second, expected) << name;
    } else {
      const double error = relative_error(found->second, expected);
      EXPECT_LT(error, 2e-6) << name;
      if (error > worst) {
        worst = error;
        worst_name = name;
      }
    }
    sink.tensors.erase(found);
  }
  for (const auto& [name, values] : sink.tensors) ADD_FAILURE() << name << " is not known to the reference";
  std::cout << GetParam().name << ", " << GetParam().isa << ": worst intermediate " << worst_name << ", " << worst
            << "\n";
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden,
                         testing::Values(Param{"proportions", "scalar"}, Param{"odd-shapes", "scalar"},
                                         Param{"q-lora-groups", "scalar"}, Param{"extreme-gates", "scalar"},
                                         Param{"proportions", "avx2"}, Param{"odd-shapes", "avx2"},
                                         Param{"q-lora-groups", "avx2"}, Param{"extreme-gates", "avx2"},
                                         Param{"proportions", "avx512"}, Param{"odd-shapes", "avx512"},
                                         Param{"q-lora-groups", "avx512"}, Param{"extreme-gates", "avx512"}),
                         [](const testing::TestParamInfo<Param>& param) {
                           std::string name = std::string(param.param.name) + "_" + param.param.isa;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace kda
