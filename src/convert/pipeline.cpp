#include "convert/pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "convert/row_reader.h"

namespace kda {

namespace {

constexpr int64_t kSliceElements = int64_t{1} << 18;

/// Units of one tensor.
struct Slice {
  const PlannedTensor* tensor;
  int64_t first;
  int64_t n;
  bool last;  // of the tensor
};

std::vector<Slice> cut(std::span<const PlannedTensor> tensors) {
  std::vector<Slice> out;
  for (const PlannedTensor& tensor : tensors) {
    const int64_t n_units = tensor.n_units();
    const int64_t step = std::max(kSliceElements / tensor.unit(), int64_t{1});
    for (int64_t first = 0; first < n_units; first += step) {
      const int64_t n = std::min(step, n_units - first);
      out.push_back({&tensor, first, n, first + n == n_units});
    }
  }
  return out;
}

/// A ring of slots: workers fill slot i % n with slice i, at most n slices ahead of the writer.
class Ring {
 public:
  Ring(std::vector<Slice> slices, const ImportanceMatrix* importance, int n_threads)
      : slices_(std::move(slices)), importance_(importance), slots_(static_cast<size_t>(n_threads) * 2 + 2) {
    for (int i = 0; i < n_threads; ++i) workers_.emplace_back([this] { work(); });
  }
  ~Ring() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  [[nodiscard]] const std::vector<Slice>& slices() const noexcept { return slices_; }

  /// The bytes of slice i, waited for; valid until release(i). In order only. Throws what the worker threw.
  [[nodiscard]] std::span<const std::byte> get(size_t i) {
    Slot& slot = slots_[i % slots_.size()];
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return slot.ready; });
    if (slot.error) std::rethrow_exception(slot.error);
    return slot.bytes;
  }
  void release(size_t i) {
    {
      const std::lock_guard lock(mutex_);
      slots_[i % slots_.size()].ready = false;
      n_written_ = i + 1;
    }
    changed_.notify_all();
  }

 private:
  struct Slot {
    std::vector<std::byte> bytes;
    std::exception_ptr error;
    bool ready = false;
  };

  void work() {
    RowEncoder encoder(importance_);
    for (;;) {
      size_t i = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || next_ == slices_.size() || next_ < n_written_ + slots_.size(); });
        if (stop_ || next_ == slices_.size()) return;
        i = next_++;
      }
      Slot& slot = slots_[i % slots_.size()];
      std::exception_ptr error;
      try {
        const Slice& slice = slices_[i];
        slot.bytes.resize(static_cast<size_t>(row_bytes(slice.tensor->type, slice.tensor->unit() * slice.n)));
        encoder.encode(*slice.tensor, slice.first, slice.n, slot.bytes.data());
      } catch (...) {
        error = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        slot.error = error;
        slot.ready = true;
      }
      changed_.notify_all();
    }
  }

  std::vector<Slice> slices_;
  const ImportanceMatrix* importance_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t next_ = 0;       // slice to be taken
  size_t n_written_ = 0;  // slices released
  bool stop_ = false;
  std::vector<std::jthread> workers_;  // last, so that they end first
};

}  // namespace

void write_tensors(std::span<const PlannedTensor> tensors, const ImportanceMatrix* importance, GgufOutput& output,
                   int n_threads, const ConvertProgress& progress) {
  int64_t total = 0;
  int64_t done = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    total += tensors[i].bytes();
    if (i < output.n_resumed()) done += tensors[i].bytes();
  }
  Ring ring(cut(tensors.subspan(output.n_resumed())), importance, n_threads);
  for (size_t i = 0; i < ring.slices().size(); ++i) {
    const std::span<const std::byte> bytes = ring.get(i);
    output.write(bytes);
    done += static_cast<int64_t>(bytes.size());
    ring.release(i);
    if (ring.slices()[i].last) output.end_tensor();
    if (!progress(done, total)) fail(ErrorCode::kInterrupted, "interrupted");
  }
}

}  // namespace kda
