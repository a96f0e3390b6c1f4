#include "engine/open_tokenizer.h"

#include "arch/model_config.h"
#include "formats/gguf.h"
#include "formats/json.h"

namespace kda {

std::unique_ptr<Tokenizer> open_tokenizer(const ModelLocation& location) {
  if (location.kind == ModelKind::kFolder) {
    const std::string folder = location.path.string();
    const std::string config = (location.path / "config.json").string();
    const int64_t n_rows = read_hf_config(read_json_file(config), config).vocab_size;
    return std::make_unique<Tokenizer>(read_folder_vocabulary(folder, n_rows));
  }
  const GgufModel gguf = GgufModel::open(location.path);
  std::vector<std::string> warnings;
  const int64_t n_rows = read_gguf_config(gguf, warnings).vocab_size;
  return std::make_unique<Tokenizer>(read_gguf_vocabulary(gguf.main(), n_rows));
}

}  // namespace kda
