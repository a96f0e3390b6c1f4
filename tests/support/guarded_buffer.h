// Memory that ends where an unreadable page begins: a read or write past its end stops the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace kda::test {

class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes) : bytes_(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (bytes + page - 1) / page * page + page;
    void* p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    start_ = static_cast<std::byte*>(p);
    if (mprotect(start_ + mapped_ - page, page, PROT_NONE) != 0) throw std::bad_alloc();
    data_ = start_ + mapped_ - page - bytes;
  }
  ~GuardedBuffer() { munmap(start_, mapped_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] size_t size_bytes() const noexcept { return bytes_; }
  /// The start as T; aligned to T when the size is a multiple of its alignment.
  template <typename T>
  [[nodiscard]] T* as() const noexcept {
    return reinterpret_cast<T*>(data_);
  }

 private:
  size_t bytes_;
  size_t mapped_ = 0;
  std::byte* start_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace kda::test
