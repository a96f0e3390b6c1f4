#include "convert/disk_space.h"

#include <sys/statvfs.h>

#include "base/error.h"

namespace kda {

void check_disk_space(const std::filesystem::path& folder, int64_t bytes, const std::string& subject) {
  struct statvfs room {};
  if (::statvfs(folder.empty() ? "." : folder.c_str(), &room) != 0) return;
  const auto free = static_cast<double>(room.f_bavail) * static_cast<double>(room.f_frsize);
  if (static_cast<double>(bytes) <= free) return;
  fail(ErrorCode::kIo, "{}: expected {:.1f} MB of free disk space, found {:.1f} MB", subject,
       static_cast<double>(bytes) * 1e-6, free * 1e-6);
}

}  // namespace kda
