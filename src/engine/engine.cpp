#include "engine/engine.h"

#include <algorithm>

#include "base/cpu_features.h"
#include "base/error.h"
#include "base/processors.h"
#include "engine/sequence_impl.h"
#include "formats/gguf.h"
#include "formats/hub.h"

namespace kda {

namespace {

constexpr int kMaxThreads = 1024;
constexpr int64_t kMaxContext = int64_t{1} << 27;
constexpr int64_t kDefaultContext = 8192;

double mebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1024 * 1024); }

void check_threads(const char* name, int threads) {
  if (threads < 0 || threads > kMaxThreads) {
    fail(ErrorCode::kUsage, "{}: {} asked for, expected 0 (automatic) to {}", name, threads, kMaxThreads);
  }
}

/// The options with every number of threads that was left open.
EngineOptions resolved(EngineOptions options) {
  check_threads("threads", options.threads);
  check_threads("threads_prompt", options.threads_prompt);
  if (options.threads == 0) options.threads = std::min(available_cores(), kMaxThreads);
  if (options.threads_prompt == 0) options.threads_prompt = options.threads;
  if (options.batch_tokens < 1 || options.batch_tokens > kMaxBatchTokens) {
    fail(ErrorCode::kUsage, "batch: {} tokens asked for, expected 1 to {}", options.batch_tokens, kMaxBatchTokens);
  }
  if (options.expand_mla_from < 0) {
    fail(ErrorCode::kUsage, "expand_mla_from: {} tokens asked for, expected 0 (automatic) or more",
         options.expand_mla_from);
  }
  if (options.max_guesses < 0 || options.max_guesses > kMaxGuesses) {
    fail(ErrorCode::kUsage, "draft: {} guesses asked for, expected 0 to {}", options.max_guesses, kMaxGuesses);
  }
  return options;
}

}  // namespace

Engine::Impl::Impl(std::unique_ptr<Checkpoint> opened, const EngineOptions& given)
    : options(resolved(given)),
      checkpoint(std::move(opened)),
      kernels(select_kernels(options.isa.c_str())),
      pool(std::max(options.threads, options.threads_prompt)),
      model(checkpoint->config(), checkpoint->weights(), options.expand_mla_from),
      warnings(checkpoint->warnings().begin(), checkpoint->warnings().end()) {
  open_tokenizer();
  open_chat_format();
}

void Engine::Impl::open_tokenizer() {
  const ModelLocation& location = checkpoint->location();
  const bool has_vocabulary = location.kind == ModelKind::kGguf
                                  ? checkpoint->gguf()->main().find("tokenizer.ggml.tokens") != nullptr
                                  : std::filesystem::exists(location.path / "tiktoken.model");
  if (!has_vocabulary) {
    no_tokenizer = location.kind == ModelKind::kGguf ? "the file has no tokenizer.ggml.tokens"
                                                     : "the folder has no tiktoken.model";
    return;
  }
  try {
    Vocabulary vocabulary = location.kind == ModelKind::kGguf
                                ? read_gguf_vocabulary(checkpoint->gguf()->main(), config().vocab_size)
                                : read_folder_vocabulary(location.path.string(), config().vocab_size);
    warnings.insert(warnings.end(), vocabulary.notes.begin(), vocabulary.notes.end());
    tokenizer.emplace(std::move(vocabulary));
  } catch (const Error& e) {
    no_tokenizer = e.what();
    warnings.push_back(fmt::format("the vocabulary cannot be used, only token ids can be fed: {}", e.what()));
  }
}

void Engine::Impl::open_chat_format() {
  if (!tokenizer) return;
  try {
    chat_format = ChatFormat::create(*tokenizer, checkpoint->chat_template());
  } catch (const Error& e) {
    chat_format = ChatFormat::create(*tokenizer, "");
    warnings.push_back(fmt::format("the model's chat template cannot be used, {}: {}",
                                   chat_format ? "the built-in format takes its place" : "so it cannot chat",
                                   e.what()));
  }
}

RunMemory::RunMemory(ThreadPool& pool, const KernelTable& kernels, bool exact, const ModelConfig& config,
                     int64_t max_tokens, int64_t n_logits, Arena& arena)
    : ops(pool, kernels, exact, ops_limits(config), arena),
      workspace(config, max_tokens, arena),
      fresh_logits(take_matrix(arena, n_logits, config.vocab_size)) {}

Engine::Engine() = default;
Engine::~Engine() = default;

std::unique_ptr<Engine> Engine::open(const std::string& model, const EngineOptions& options,
                                     std::string (*getenv_like)(const char*)) {
  std::unique_ptr<Engine> engine(new Engine);
  engine->impl_ = std::make_unique<Impl>(Checkpoint::open(locate_model(model, getenv_like)), options);
  return engine;
}

const ModelConfig& Engine::config() const noexcept { return impl_->config(); }
const Checkpoint& Engine::checkpoint() const noexcept { return *impl_->checkpoint; }
bool Engine::has_tokenizer() const noexcept { return impl_->tokenizer.has_value(); }
const Tokenizer& Engine::tokenizer() const {
  if (!impl_->tokenizer) {
    fail(ErrorCode::kNotFound, "model: it cannot read or write text: {}", impl_->no_tokenizer);
  }
  return *impl_->tokenizer;
}
const ChatFormat* Engine::chat_format() const noexcept { return impl_->chat_format.get(); }
int Engine::n_threads(int64_t n_tokens) const noexcept { return impl_->n_threads(n_tokens); }
std::string_view Engine::isa() const noexcept { return impl_->kernels.name; }
std::span<const std::string> Engine::warnings() const noexcept { return impl_->warnings; }

MemoryPlan Engine::memory_plan(int64_t context) const {
  if (context < 1 || context > kMaxContext) {
    fail(ErrorCode::kUsage, "context: {} tokens asked for, expected 1 to {}", context, kMaxContext);
  }
  Arena arena;
  (void)impl_->lay_out(context, arena);
  (void)take_matrix(arena, 1, config().vocab_size);  // the sequence's logits
  return {.context = context,
          .weights_mapped = impl_->checkpoint->mapped_bytes(),
          .weights_owned = impl_->checkpoint->owned_bytes() + impl_->model.owned_bytes(),
          .kda_state = SequenceState::recurrent_bytes(config()) +
                       SequenceState::tentative_bytes(config(), impl_->max_tentative()),
          .latent_cache = SequenceState::cache_bytes(config(), context),
          .scratch = static_cast<int64_t>(arena.peak_bytes())};
}

int64_t Engine::default_context() const {
  const int64_t wanted = std::clamp<int64_t>(config().context_length, 1, kDefaultContext);
  const MemoryPlan plan = memory_plan(wanted);
  const int64_t missing = plan.total_anonymous() - plan.weights_owned - available_memory_bytes();
  if (missing <= 0) return wanted;
  const int64_t bytes_a_token = std::max<int64_t>(1, plan.latent_cache / wanted);
  return std::max<int64_t>(1, wanted - (missing + bytes_a_token - 1) / bytes_a_token);
}

MemoryPlan Engine::batch_memory_plan(int64_t context) const {
  MemoryPlan plan = memory_plan(context);
  Arena arena;
  (void)take_matrix(arena, 1, config().vocab_size);
  plan.kda_state = SequenceState::recurrent_bytes(config());
  plan.scratch = static_cast<int64_t>(arena.peak_bytes());
  return plan;
}

namespace {

/// Throws Error(kLimit) unless what a sequence needs is available; the weights' part is there already.
void check_available(const MemoryPlan& plan) {
  const int64_t needed = plan.total_anonymous() - plan.weights_owned;
  const int64_t available = available_memory_bytes();
  if (needed <= available) return;
  fail(ErrorCode::kLimit,
       "memory: a context of {} tokens needs {:.1f} MiB ({:.1f} state, {:.1f} cache, {:.1f} scratch), {:.1f} MiB are "
       "available; ask for a shorter context or smaller batches",
       plan.context, mebibytes(needed), mebibytes(plan.kda_state), mebibytes(plan.latent_cache),
       mebibytes(plan.scratch), mebibytes(available));
}

}  // namespace

std::unique_ptr<Sequence> Engine::new_sequence(int64_t context) const {
  const MemoryPlan plan = memory_plan(context);
  check_available(plan);
  std::unique_ptr<Sequence> sequence(new Sequence);
  sequence->impl_ = std::make_unique<Sequence::Impl>(*impl_, context, plan, true);
  return sequence;
}

std::unique_ptr<Sequence> Engine::new_batch_sequence(int64_t context) const {
  const MemoryPlan plan = batch_memory_plan(context);
  check_available(plan);
  std::unique_ptr<Sequence> sequence(new Sequence);
  sequence->impl_ = std::make_unique<Sequence::Impl>(*impl_, context, plan, false);
  return sequence;
}

}  // namespace kda
