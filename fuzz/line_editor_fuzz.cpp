// Key bytes of any kind leave the editor with valid UTF-8, the cursor between characters, and a layout that holds it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/line_editor.h"
#include "cli/line_layout.h"
#include "cli/text.h"

using kda::cli::LineEditor;

// Kill and yank double a text up to the editor's limit of megabytes, on which each check takes long.
constexpr size_t kMaxCheckedBytes = 1 << 16;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool ready = (kda::cli::use_utf8_locale(), true);
  static const std::vector<std::string> history{"first", "two\nlines", "\xff invalid", "\u6f22\u5b57 and e\u0301"};
  if (!ready || size == 0) return 0;
  LineEditor editor(history, [](std::string_view prefix) {
    return prefix.starts_with('/') ? std::vector<std::string>{"/save", "/stats"} : std::vector<std::string>();
  });
  const int columns = data[0] % 40;
  for (size_t i = 1; i < size; ++i) {
    const LineEditor::Event event = editor.feed(data[i]);
    const std::string& text = editor.text();
    KDA_CHECK(editor.cursor() <= text.size());
    KDA_CHECK(editor.cursor() == text.size() || (static_cast<unsigned char>(text[editor.cursor()]) & 0xC0) != 0x80);
    if (event == LineEditor::Event::kNone) continue;
    if (text.size() > kMaxCheckedBytes) continue;
    KDA_CHECK(kda::cli::is_utf8(text));
    if (i % 16 == 0) {
      const kda::cli::LineLayout layout = kda::cli::lay_out(">>> ", "... ", text, editor.cursor(), columns);
      KDA_CHECK(layout.cursor_row < layout.rows.size());
    }
    if (event == LineEditor::Event::kAccept) {
      static_cast<void>(kda::cli::message_text(text));
      editor.start();
    }
  }
  return 0;
}
