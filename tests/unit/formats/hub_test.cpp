#include "formats/hub.h"

#include <gtest/gtest.h>

#include <map>

#include "formats/gguf_choice.h"
#include "unit/formats/support.h"

namespace kda {
namespace {

namespace fs = std::filesystem;

using test::expect_error;
using test::TemporaryFolder;

constexpr const char* kGguf = "GGUF and what follows";
constexpr const char* kPointer = "version https://git-lfs.github.com/spec/v1\n";

std::map<std::string, std::string>& environment() {
  static std::map<std::string, std::string> variables;
  return variables;
}

std::string getenv_like(const char* name) {
  const auto it = environment().find(name);
  return it == environment().end() ? "" : it->second;
}

ModelLocation locate(const std::string& model) { return locate_model(model, getenv_like); }

/// A Hugging Face cache with one repository, as HF_HUB_CACHE.
class HubCache : public ::testing::Test {
 protected:
  void SetUp() override {
    environment() = {{"HF_HUB_CACHE", root_.path().string()}};
    root_.write(kRepository + "/refs/main", kCommit);
  }
  void TearDown() override { environment().clear(); }

  /// A link in the snapshot to a blob, as the cache has them.
  fs::path add(const std::string& name, std::string_view bytes = kGguf, const std::string& commit = kCommit) {
    const std::string blob = "blob" + std::to_string(n_blobs_++);
    root_.write(kRepository + "/blobs/" + blob, bytes);
    const fs::path path = snapshot(commit) / name;
    fs::create_directories(path.parent_path());
    fs::create_symlink(root_.path() / kRepository / "blobs" / blob, path);
    return path;
  }
  [[nodiscard]] fs::path snapshot(const std::string& commit = kCommit) const {
    return root_.path() / kRepository / "snapshots" / commit;
  }

  inline static const std::string kRepository = "models--org--Kimi-Linear-GGUF";
  inline static const std::string kCommit = "0123abcd";
  inline static const std::string kModel = "org/Kimi-Linear-GGUF";
  TemporaryFolder root_;
  int n_blobs_ = 0;
};

// Paths

TEST(LocateModel, TakesAFileByItsPath) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("m.gguf", kGguf);
  const ModelLocation found = locate(path.string());
  EXPECT_EQ(found.kind, ModelKind::kGguf);
  EXPECT_EQ(found.path, path);
  EXPECT_EQ(locate(folder.write("named otherwise", kGguf).string()).kind, ModelKind::kGguf);
}

TEST(LocateModel, LeadsFromAnyPartToTheFirst) {
  const TemporaryFolder folder;
  const fs::path first = folder.write("m-00001-of-00002.gguf", kGguf);
  const fs::path second = folder.write("m-00002-of-00002.gguf", kGguf);
  EXPECT_EQ(locate(second.string()).path, first);
  EXPECT_EQ(locate(folder.path().string()).path, first);
}

TEST(LocateModel, TakesAFolderWithConfigAndSafetensors) {
  for (const char* weights : {"model.safetensors", "model.safetensors.index.json"}) {
    const TemporaryFolder folder;
    folder.write("config.json", "{}");
    folder.write(weights, "{}");
    const ModelLocation found = locate(folder.path().string());
    EXPECT_EQ(found.kind, ModelKind::kFolder);
    EXPECT_EQ(found.path, folder.path());
  }
}

TEST(LocateModel, TakesTheOnlyGgufModelOfAFolder) {
  const TemporaryFolder folder;
  folder.write("config.json", "{}");  // GGUF repositories have it too
  folder.write("mmproj-F16.gguf", kGguf);
  folder.write("imatrix.gguf", kGguf);
  folder.write("Model-imatrix.gguf", kGguf);
  folder.write("mtp-Q8_0.gguf", kGguf);
  folder.write(".hidden/other.gguf", kGguf);
  const fs::path path = folder.write("model.gguf", kGguf);
  EXPECT_EQ(locate(folder.path().string()).path, path);
}

TEST(LocateModel, ListsTheModelsOfAFolderThatHoldsSeveral) {
  const TemporaryFolder folder;
  folder.write("b-Q8_0.gguf", kGguf);
  folder.write("a-Q4_K_M.gguf", kGguf);
  expect_error(ErrorCode::kUsage, {folder.path().string(), "one GGUF model", "a-Q4_K_M.gguf, b-Q8_0.gguf"},
               [&] { (void)locate(folder.path().string()); });
  EXPECT_EQ(locate(folder.path().string() + ":q8_0").path, folder.path() / "b-Q8_0.gguf");
  expect_error(ErrorCode::kNotFound, {"'Q6_K'", "a-Q4_K_M.gguf, b-Q8_0.gguf"},
               [&] { (void)locate(folder.path().string() + ":Q6_K"); });
}

TEST(LocateModel, LooksOneLevelIntoAFolder) {
  const TemporaryFolder folder;
  folder.write("a/b/too deep.gguf", kGguf);
  const fs::path path = folder.write("Q8_0/m-00001-of-00001.gguf", kGguf);
  EXPECT_EQ(locate(folder.path().string()).path, path);
}

TEST(LocateModel, SaysWhatAFolderLacks) {
  const TemporaryFolder folder;
  expect_error(ErrorCode::kNotFound, {"expected a GGUF file", "found neither"},
               [&] { (void)locate(folder.path().string()); });
  folder.write("config.json", "{}");
  expect_error(ErrorCode::kNotFound, {"config.json alone"}, [&] { (void)locate(folder.path().string()); });
  const TemporaryFolder weights;
  weights.write("model.safetensors", "");
  expect_error(ErrorCode::kNotFound, {"no config.json"}, [&] { (void)locate(weights.path().string()); });
}

TEST(LocateModel, NamesWhatIsNotAModelFile) {
  const TemporaryFolder folder;
  const auto refuses = [&](const char* name, std::string_view bytes, std::initializer_list<std::string_view> words) {
    const fs::path path = folder.write(name, bytes);
    expect_error(ErrorCode::kFormat, words, [&] { (void)locate(path.string()); });
  };
  refuses("lfs.gguf", kPointer, {"lfs.gguf", "Git LFS pointer"});
  refuses("page.gguf", "<!doctype html>", {"page.gguf", "web page"});
  refuses("model.safetensors", test::Bytes().str("{}").text(), {"safetensors", "give the folder"});
  refuses("m.gguf.incomplete", kGguf, {"partial download"});
  refuses("m.gguf.part", kGguf, {"partial download"});
  refuses("text.gguf", "hello", {"text.gguf", "another kind"});
  expect_error(ErrorCode::kFormat, {"m.gguf.part", "partial download"}, [&] {
    fs::remove(folder.path() / "m.gguf.incomplete"), (void)locate((folder.path() / "m.gguf").string());
  });
}

TEST(LocateModel, NamesPartialDownloadsInAFolder) {
  const TemporaryFolder folder;
  folder.write("config.json", "{}");
  folder.write(".cache/huggingface/download/abc.incomplete", "");
  expect_error(ErrorCode::kFormat, {"partial download", "abc.incomplete"},
               [&] { (void)locate(folder.path().string()); });
}

TEST(LocateModel, NamesLinksThatLeadNowhere) {
  const TemporaryFolder folder;
  fs::create_symlink(folder.path() / "blob", folder.path() / "m.gguf");
  expect_error(ErrorCode::kNotFound, {"m.gguf", "link to a file that is missing"},
               [&] { (void)locate((folder.path() / "m.gguf").string()); });
}

TEST(LocateModel, RefusesWhatIsNeitherPathNorName) {
  environment() = {{"HOME", "/nonexistent"}};
  for (const char* model :
       {"absent.gguf", "./org/absent", "/absent/model", "org/a/b", "org/", "org/..", "../org", "org/name:", "org/name@",
        "org/name:a:b", "org/name@a@b", "org/name@../x", "org/na me", "org/name:a/b"}) {
    expect_error(ErrorCode::kNotFound, {model, "ORG/NAME[:LABEL]"}, [&] { (void)locate(model); });
  }
  environment().clear();
}

TEST(LocateModel, ListsThePlacesItLookedAt) {
  environment() = {{"LLAMA_CACHE", "/n/1"}, {"HF_HUB_CACHE", "/n/2"},   {"HUGGINGFACE_HUB_CACHE", "/n/3"},
                   {"HF_HOME", "/n/4"},     {"XDG_CACHE_HOME", "/n/5"}, {"HOME", "/n/6"}};
  expect_error(ErrorCode::kNotFound,
               {"org/name", "/n/1/models--org--name, /n/2/models--org--name, /n/3/models--org--name, ",
                "/n/4/hub/models--org--name, /n/5/huggingface/hub/models--org--name, ",
                "/n/6/.cache/huggingface/hub/models--org--name", "hf download org/name"},
               [] { (void)locate("org/name"); });
  environment().clear();
  expect_error(ErrorCode::kNotFound, {"looked at org/name"}, [] { (void)locate("org/name"); });
}

TEST(LocateModel, TakesTheFirstPlaceThatHoldsTheModel) {
  const TemporaryFolder first;
  const TemporaryFolder second;
  environment() = {{"HF_HOME", first.path().string()}, {"HOME", second.path().string()}};
  const fs::path below_home = second.write(".cache/huggingface/hub/models--org--name/snapshots/1/m.gguf", kGguf);
  EXPECT_EQ(locate("org/name").path, below_home);
  const fs::path below_hf_home = first.write("hub/models--org--name/snapshots/1/m.gguf", kGguf);
  EXPECT_EQ(locate("org/name").path, below_hf_home);
  environment().clear();
}

// The cache

TEST_F(HubCache, ResolvesRefsMain) {
  const fs::path path = add("m.gguf");
  add("m.gguf", kGguf, "ffff");
  root_.write(kRepository + "/refs/main", kCommit + "\n");
  EXPECT_EQ(locate(kModel).path, path);
}

TEST_F(HubCache, ResolvesRevisions) {
  add("m.gguf");
  const fs::path path = add("m.gguf", kGguf, "ffff");
  const fs::path labelled = add("m-Q8_0.gguf", kGguf, "ffff");
  root_.write(kRepository + "/refs/refs/pr/1", "ffff");
  EXPECT_EQ(locate(kModel + "@refs/pr/1:m.gguf").path, path);
  EXPECT_EQ(locate(kModel + ":q8_0@ffff").path, labelled);
  EXPECT_EQ(locate(kModel + "@ffff:Q8_0").path, labelled);
  expect_error(ErrorCode::kNotFound, {"revision 'v2'", "none"}, [&] { (void)locate(kModel + "@v2"); });
}

TEST_F(HubCache, TakesTheNewestSnapshotWithoutRefs) {
  fs::remove_all(root_.path() / kRepository / "refs");
  add("m.gguf", kGguf, "old");
  const fs::path path = add("m.gguf", kGguf, "new");
  fs::last_write_time(snapshot("old"), fs::last_write_time(snapshot("new")) - std::chrono::hours(1));
  EXPECT_EQ(locate(kModel).path, path);
}

TEST_F(HubCache, RefusesRefsThatLeaveTheCache) {
  add("m.gguf");
  for (const char* ref : {"../../..", "/etc", "..", "", "a/b"}) {
    root_.write(kRepository + "/refs/main", ref);
    expect_error(ErrorCode::kFormat, {"refs/main", "commit hash"}, [&] { (void)locate(kModel); });
  }
}

TEST_F(HubCache, NamesPartialDownloads) {
  root_.write(kRepository + "/blobs/77.incomplete", "");
  expect_error(ErrorCode::kNotFound, {kRepository, "partial download", "77.incomplete"}, [&] { (void)locate(kModel); });
  add("config.json", "{}");
  expect_error(ErrorCode::kFormat, {"partial download", "77.incomplete"}, [&] { (void)locate(kModel); });
  add("m-Q8_0.gguf");
  expect_error(ErrorCode::kNotFound, {"'Q4_K_M'", "m-Q8_0.gguf", "77.incomplete"},
               [&] { (void)locate(kModel + ":Q4_K_M"); });
}

TEST_F(HubCache, NamesBlobsThatAreMissing) {
  const fs::path path = add("m.gguf");
  fs::remove(fs::read_symlink(path));
  expect_error(ErrorCode::kNotFound, {"m.gguf", "link to a file that is missing"}, [&] { (void)locate(kModel); });
}

TEST_F(HubCache, PrefersQ4KMThenTheFirst) {
  const fs::path q2 = add("m-Q2_K.gguf");
  const fs::path q8 = add("m-Q8_0.gguf");
  EXPECT_EQ(locate(kModel).path, q2);
  const fs::path q4 = add("m-Q4_K_M.gguf");
  add("m-Q4_K_S.gguf");
  EXPECT_EQ(locate(kModel).path, q4);
  EXPECT_EQ(locate(kModel + ":Q8_0").path, q8);
}

TEST_F(HubCache, TakesASafetensorsModel) {
  add("config.json", "{}");
  add("model.safetensors", "x");
  const ModelLocation found = locate(kModel);
  EXPECT_EQ(found.kind, ModelKind::kFolder);
  EXPECT_EQ(found.path, snapshot());
  expect_error(ErrorCode::kUsage, {"'Q8_0'", "leave the label out"}, [&] { (void)locate(kModel + ":Q8_0"); });
}

TEST_F(HubCache, FindsSplitSetsInFolders) {
  const fs::path first = add("Q8_0/m-Q8_0-00001-of-00002.gguf");
  add("Q8_0/m-Q8_0-00002-of-00002.gguf");
  const fs::path unlabelled = add("BF16/m-00001-of-00002.gguf");
  add("BF16/m-00002-of-00002.gguf");
  EXPECT_EQ(locate(kModel + ":Q8_0").path, first);
  EXPECT_EQ(locate(kModel + ":bf16").path, unlabelled);
}

TEST_F(HubCache, NamesAMissingFirstPart) {
  add("m-Q8_0-00002-of-00002.gguf");
  expect_error(ErrorCode::kNotFound, {"m-Q8_0-00001-of-00002.gguf", "found none"}, [&] { (void)locate(kModel); });
}

// Labels

std::vector<std::string> match(const std::vector<std::string>& names, std::string_view label) {
  std::vector<GgufCandidate> candidates;
  for (const std::string& name : names) candidates.push_back({"/folder/" + name, name});
  std::vector<std::string> out;
  for (const GgufCandidate& candidate : match_label(candidates, label)) out.push_back(candidate.relative);
  return out;
}

using Names = std::vector<std::string>;

TEST(MatchLabel, IgnoresCase) {
  EXPECT_EQ(match({"Kimi-q4_k_m.gguf", "Kimi-Q8_0.gguf"}, "Q4_K_M"), Names{"Kimi-q4_k_m.gguf"});
  EXPECT_EQ(match({"Kimi-Q4_K_M.gguf", "Kimi-Q8_0.gguf"}, "q4_k_m"), Names{"Kimi-Q4_K_M.gguf"});
}

TEST(MatchLabel, PrefersTheExactQuantization) {
  EXPECT_EQ(match({"m-Q4_K_M.gguf", "m-Q4_K.gguf", "m-Q4_K_S.gguf"}, "Q4_K"), Names{"m-Q4_K.gguf"});
  EXPECT_EQ(match({"m-Q4_K_M.gguf", "m-UD-Q4_K_M.gguf"}, "Q4_K_M"), Names{"m-Q4_K_M.gguf"});
  EXPECT_EQ(match({"m-Q4_K_M.gguf", "m-UD-Q4_K_M.gguf"}, "UD-Q4_K_M"), Names{"m-UD-Q4_K_M.gguf"});
  EXPECT_EQ(match({"m-IQ4_XS.gguf", "m-Q4_0.gguf"}, "IQ4_XS"), Names{"m-IQ4_XS.gguf"});
  EXPECT_EQ(match({"m-MXFP4_MOE.gguf", "m-MXFP4_MOE_BF16.gguf"}, "MXFP4_MOE"), Names{"m-MXFP4_MOE.gguf"});
}

TEST(MatchLabel, TakesTheBeginningOfAQuantizationWhenNothingFitsBetter) {
  EXPECT_EQ(match({"m-Q4_K_M.gguf", "m-Q8_0.gguf"}, "Q4_K"), Names{"m-Q4_K_M.gguf"});
  EXPECT_EQ(match({"m-Q4_K_M.gguf", "m-Q4_K_S.gguf"}, "Q4_K"), (Names{"m-Q4_K_M.gguf", "m-Q4_K_S.gguf"}));
  EXPECT_EQ(match({"m-UD-Q4_K_M.gguf"}, "Q4_K_M"), Names{"m-UD-Q4_K_M.gguf"});
}

TEST(MatchLabel, NeverMatchesInsideAWord) {
  EXPECT_EQ(match({"m-IQ4_XS.gguf"}, "Q4_XS"), Names{});
  EXPECT_EQ(match({"m-Q4_K_M.gguf"}, "Q4_"), Names{});
  EXPECT_EQ(match({"m-Q4_K_M.gguf"}, "K_M"), Names{});
  EXPECT_EQ(match({"m-Q8_0.gguf"}, "Q8_00"), Names{});
  EXPECT_EQ(match({"m-BF16.gguf"}, "F16"), Names{});
}

TEST(MatchLabel, TakesOtherWordsAndFileNames) {
  EXPECT_EQ(match({"m-imatrix-Q4_K_M.gguf", "m-plain-Q4_K_M.gguf"}, "imatrix"), Names{"m-imatrix-Q4_K_M.gguf"});
  EXPECT_EQ(match({"a/m-Q4_K_M.gguf", "m-Q8_0.gguf"}, "M-q4_k_m.gguf"), Names{"a/m-Q4_K_M.gguf"});
  EXPECT_EQ(match({"Q8_0/m-00001-of-00002.gguf", "x.Q4_0.gguf"}, "Q8_0"), Names{"Q8_0/m-00001-of-00002.gguf"});
  EXPECT_EQ(match({"Q8_0/m-00001-of-00002.gguf", "x.Q4_0.gguf"}, "Q4_0"), Names{"x.Q4_0.gguf"});
  EXPECT_EQ(match({"a.gguf"}, "Q8_0"), Names{});
}

}  // namespace
}  // namespace kda
