#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "arch/model_config.h"
#include "base/error.h"
#include "chat/chat_format.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

namespace kda::cli {

namespace {

struct InspectArgs {
  std::string model;
  EngineOptions engine;
  int64_t context = 0;
  bool tensors = false;
  bool metadata = false;
  bool json = false;
  bool check = false;
};

/// What all tensors of one type take together.
struct TypeTotal {
  int64_t n_tensors = 0;
  int64_t n_elements = 0;
  int64_t bytes = 0;
};

int64_t n_elements(const TensorListing& tensor) {
  int64_t n = 1;
  for (const int64_t d : tensor.shape) n *= d;
  return n;
}

/// By type, the largest first.
std::vector<std::pair<std::string, TypeTotal>> totals_by_type(std::span<const TensorListing> tensors) {
  std::map<std::string, TypeTotal> by_type;
  for (const TensorListing& tensor : tensors) {
    TypeTotal& total = by_type[tensor.type];
    ++total.n_tensors;
    total.n_elements += n_elements(tensor);
    total.bytes += tensor.bytes;
  }
  std::vector<std::pair<std::string, TypeTotal>> out(by_type.begin(), by_type.end());
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  return out;
}

TypeTotal total_of(std::span<const TensorListing> tensors) {
  TypeTotal total{static_cast<int64_t>(tensors.size()), 0, 0};
  for (const TensorListing& tensor : tensors) {
    total.n_elements += n_elements(tensor);
    total.bytes += tensor.bytes;
  }
  return total;
}

double bits_per_weight(int64_t bytes, int64_t n) {
  return n > 0 ? 8.0 * static_cast<double>(bytes) / static_cast<double>(n) : 0;
}

int64_t count_moe(const ModelConfig& c) {
  return std::count_if(c.layers.begin(), c.layers.end(), [](const LayerConfig& l) { return l.ffn == FfnKind::kMoe; });
}

/// Where the chat format comes from; "" when there is none.
std::string chat_source(const Engine& engine) {
  const ChatFormat* chat = engine.chat_format();
  return chat == nullptr ? std::string() : std::string(chat->source());
}

std::vector<std::string> end_token_names(const Engine& engine) {
  std::vector<std::string> out;
  if (!engine.has_tokenizer()) return out;
  for (const int32_t id : engine.tokenizer().end_ids()) out.emplace_back(engine.tokenizer().piece(id));
  return out;
}

OrderedJson to_json(const Engine& engine, const MemoryPlan& plan, const InspectArgs& args) {
  const ModelConfig& c = engine.config();
  const Checkpoint& checkpoint = engine.checkpoint();
  OrderedJson out;
  out["path"] = checkpoint.location().path.string();
  out["kind"] = checkpoint.location().kind == ModelKind::kGguf ? "gguf" : "folder";
  out["architecture"] = c.architecture;
  out["name"] = c.name;
  out["parameters"] = checkpoint.n_parameters();
  out["context_length"] = c.context_length;
  out["vocab_size"] = c.vocab_size;
  out["hidden_size"] = c.hidden_size;
  out["tied_embeddings"] = c.tied_embeddings;
  out["layers"] = {{"total", c.n_layers()},
                   {"kda", c.count(AttentionKind::kKda)},
                   {"mla", c.count(AttentionKind::kMla)},
                   {"dense", c.n_layers() - count_moe(c)},
                   {"moe", count_moe(c)}};
  out["kda"] = {{"heads", c.kda_heads}, {"head_dim", c.kda_head_dim}, {"conv_kernel", c.conv_kernel}};
  out["mla"] = {{"heads", c.n_heads},
                {"q_lora_rank", c.q_lora_rank},
                {"kv_lora_rank", c.kv_lora_rank},
                {"qk_nope_head_dim", c.qk_nope_head_dim},
                {"qk_rope_head_dim", c.qk_rope_head_dim},
                {"v_head_dim", c.v_head_dim}};
  out["ffn"] = {{"intermediate_size", c.intermediate_size},
                {"experts", c.n_experts},
                {"experts_used", c.n_experts_used},
                {"shared_experts", c.n_shared_experts},
                {"moe_intermediate_size", c.moe_intermediate_size}};
  const std::vector<TensorListing> tensors = checkpoint.tensors();
  out["types"] = OrderedJson::array();
  for (const auto& [type, total] : totals_by_type(tensors)) {
    out["types"].push_back({{"type", type},
                            {"tensors", total.n_tensors},
                            {"elements", total.n_elements},
                            {"bytes", total.bytes},
                            {"bits_per_weight", bits_per_weight(total.bytes, total.n_elements)}});
  }
  const TypeTotal all = total_of(tensors);
  out["bits_per_weight"] = bits_per_weight(all.bytes, all.n_elements);
  out["memory"] = {{"context", plan.context},
                   {"weights_mapped_bytes", plan.weights_mapped},
                   {"weights_owned_bytes", plan.weights_owned},
                   {"kda_state_bytes", plan.kda_state},
                   {"latent_cache_bytes", plan.latent_cache},
                   {"scratch_bytes", plan.scratch}};
  const std::string chat = chat_source(engine);
  out["chat_format"] = chat.empty() ? OrderedJson() : OrderedJson(chat);
  out["end_tokens"] = end_token_names(engine);
  out["warnings"] = std::vector<std::string>(engine.warnings().begin(), engine.warnings().end());
  if (args.metadata) {
    out["metadata"] = OrderedJson::object();
    for (const auto& [key, value] : checkpoint.metadata()) out["metadata"][key] = value;
  }
  if (args.tensors) {
    out["tensors"] = OrderedJson::array();
    for (const TensorListing& t : tensors) {
      out["tensors"].push_back({{"name", t.name}, {"type", t.type}, {"shape", t.shape}, {"bytes", t.bytes}});
    }
  }
  return out;
}

/// "label   value" lines.
class Table {
 public:
  void add(std::string_view label, std::string_view value) {
    text_ += fmt::format("{:<16}{}\n", label, terminal_safe(value));
  }
  void add_line(std::string_view line) { text_ += terminal_safe(line) + '\n'; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

std::string ffn_text(const ModelConfig& c) {
  const int64_t moe = count_moe(c);
  std::string out;
  if (c.n_layers() > moe) out = fmt::format("{} dense of {}", c.n_layers() - moe, c.intermediate_size);
  if (moe == 0) return out;
  if (!out.empty()) out += "; ";
  out += fmt::format("{} with {} experts of {}, {} used a token", moe, c.n_experts, c.moe_intermediate_size,
                     c.n_experts_used);
  if (c.n_shared_experts > 0) out += fmt::format(", {} shared", c.n_shared_experts);
  return out;
}

std::string to_text(const Engine& engine, const MemoryPlan& plan, const InspectArgs& args) {
  const ModelConfig& c = engine.config();
  const Checkpoint& checkpoint = engine.checkpoint();
  const std::vector<TensorListing> tensors = checkpoint.tensors();
  Table t;
  t.add("model", c.name.empty() ? c.architecture : fmt::format("{} ({})", c.name, c.architecture));
  t.add("path", checkpoint.location().path.string());
  t.add("parameters", fmt::format("{} ({})", human_count(checkpoint.n_parameters()), checkpoint.n_parameters()));
  t.add("layers",
        fmt::format("{}: {} KDA, {} MLA", c.n_layers(), c.count(AttentionKind::kKda), c.count(AttentionKind::kMla)));
  t.add("hidden size", fmt::format("{}", c.hidden_size));
  t.add("KDA", fmt::format("{} heads of {}, convolution over {} tokens", c.kda_heads, c.kda_head_dim, c.conv_kernel));
  t.add("MLA", fmt::format("{} heads, latent {} + {}, query/key {} + {}, value {}", c.n_heads, c.kv_lora_rank,
                           c.qk_rope_head_dim, c.qk_nope_head_dim, c.qk_rope_head_dim, c.v_head_dim));
  t.add("feed-forward", ffn_text(c));
  t.add("vocabulary", fmt::format("{}{}", c.vocab_size, c.tied_embeddings ? ", input and output tied" : ""));
  t.add("trained for", fmt::format("{} tokens", c.context_length));
  const std::string chat = chat_source(engine);
  t.add("chat format", chat.empty() ? "none" : chat);
  t.add("ends with", fmt::format("{}", fmt::join(end_token_names(engine), " ")));
  t.add_line("");
  t.add_line(fmt::format("{:<10}{:>8}{:>12}{:>12}{:>14}", "type", "tensors", "weights", "size", "bits/weight"));
  const auto add_total = [&](const std::string& type, const TypeTotal& total) {
    t.add_line(fmt::format("{:<10}{:>8}{:>12}{:>12}{:>14.2f}", type, total.n_tensors, human_count(total.n_elements),
                           human_bytes(total.bytes), bits_per_weight(total.bytes, total.n_elements)));
  };
  const auto by_type = totals_by_type(tensors);
  for (const auto& [type, total] : by_type) add_total(type, total);
  if (by_type.size() > 1) add_total("all", total_of(tensors));
  t.add_line("");
  t.add_line(fmt::format("memory for {} tokens of context", plan.context));
  t.add("  weights", fmt::format("{} mapped from the file, {} beside it", human_bytes(plan.weights_mapped),
                                 human_bytes(plan.weights_owned)));
  t.add("  KDA state", human_bytes(plan.kda_state));
  t.add("  latent cache", human_bytes(plan.latent_cache));
  t.add("  scratch", human_bytes(plan.scratch));
  for (const std::string& warning : engine.warnings()) t.add("warning", warning);
  if (args.metadata) {
    t.add_line("\nmetadata");
    for (const auto& [key, value] : checkpoint.metadata()) t.add_line(fmt::format("  {} = {}", key, quote(value)));
  }
  if (args.tensors) {
    t.add_line("\ntensors");
    size_t width = 0;
    for (const TensorListing& tensor : tensors) width = std::max(width, tensor.name.size());
    for (const TensorListing& tensor : tensors) {
      t.add_line(fmt::format("  {:<{}}  {:<8} [{}]  {}", tensor.name, width, tensor.type, fmt::join(tensor.shape, ", "),
                             human_bytes(tensor.bytes)));
    }
  }
  return t.text();
}

int inspect(const InspectArgs& args) {
  const std::unique_ptr<Engine> engine = Engine::open(args.model, args.engine, environment);
  const MemoryPlan plan = engine->memory_plan(args.context > 0 ? args.context : engine->default_context());
  if (args.json) {
    write_output(json_text(to_json(*engine, plan, args), 2) + '\n');
  } else {
    write_output(to_text(*engine, plan, args));
  }
  if (args.check) {
    install_interrupt_handler(2);
    Progress progress("reading all weights");
    engine->checkpoint().check_values([&](int64_t done, int64_t total) {
      progress.update(done, total);
      return !interrupted();
    });
    progress.clear();
    write_note("all weights are finite");
  }
  return 0;
}

}  // namespace

void add_inspect(CLI::App& root, Action& chosen) {
  CLI::App& command = add_subcommand(root, "inspect", "Show what a model is made of and what memory it needs",
                                     "  kda inspect MODEL\n"
                                     "  kda inspect MODEL --ctx 131072\n"
                                     "  kda inspect MODEL --tensors --metadata --json");
  const auto args = std::make_shared<InspectArgs>();
  add_model_argument(command, args->model);
  command
      .add_option("--ctx,-c", args->context, "Context to plan the memory for (default: what run and chat would take)")
      ->check(in_range(1, kMaxContext))
      ->type_name("N");
  add_engine_options(command, args->engine);
  command.add_flag("--tensors", args->tensors, "List every tensor");
  command.add_flag("--metadata", args->metadata, "List the metadata");
  command.add_flag("--json", args->json, "One JSON object");
  command.add_flag("--check", args->check, "Read all weights and look for NaN and infinity");
  command.callback([&chosen, args] { chosen = [args] { return inspect(*args); }; });
}

}  // namespace kda::cli
