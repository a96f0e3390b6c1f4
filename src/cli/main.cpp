#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "base/mapped_file.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "cli/text.h"

namespace {

/// A standard stream that was closed by the caller would become the first file that is opened. What is put there
/// instead refuses to be read or written, so that the loss is noticed.
void fill_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) == -1) static_cast<void>(open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY));
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is seen where it is written to
  kda::install_truncation_guard(kda::cli::leave_in_order);
  kda::cli::install_end_handlers();
  kda::cli::use_utf8_locale();
  return kda::cli::run_program(argc, argv);
}
