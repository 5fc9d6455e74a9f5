//===- Run.h - Launches kernels and judges what they write ----------------===//

#ifndef TANDEM_TEST_CUDA_RUN_H
#define TANDEM_TEST_CUDA_RUN_H

#include "test/cuda/Driver.h"
#include "test/cuda/Numbers.h"

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tandem::gpucheck {

class Run;

/// Memory of the device between guards.
class Memory {
public:
  Memory(Run &run, size_t bytes);
  ~Memory();
  Memory(const Memory &) = delete;

  DevicePointer get() const { return block + kGuard; }
  size_t size() const { return bytes; }
  void write(const void *from);
  void read(void *to) const;
  /// Fills it with NaNs, whatever it holds.
  void poison();

private:
  static constexpr size_t kGuard = 1024;
  Run &run;
  DevicePointer block = 0;
  size_t bytes;
};

/// Memory of \p T.
template <typename T> class Array : public Memory {
public:
  Array(Run &run, const std::vector<T> &values)
      : Memory(run, values.size() * sizeof(T)), count(values.size()) {
    write(values.data());
  }
  /// \p count poisoned numbers.
  Array(Run &run, size_t count) : Memory(run, count * sizeof(T)), count(count) {
    poison();
  }
  std::vector<T> values() const {
    std::vector<T> result(count);
    read(result.data());
    return result;
  }
  size_t length() const { return count; }

private:
  size_t count;
};

/// How a kernel is launched.
struct LoadedKernel {
  /// Image that it is in; null before it is first launched.
  std::string file;
  void *function = nullptr;
  unsigned block = 0, shared = 0;
  uint64_t scratchBytes = 0;
  DevicePointer scratch = 0;
  /// Per direction: the numbers of codegen::CudaGridRule::Direction.
  long grid[3][5] = {};
};

class Run {
public:
  /// Runs the kernels of \p directory of \p kind, `cubin` or `ptx`.
  Run(const Driver &driver, const std::string &directory,
      const std::string &kind);

  const Driver &driver;

  /// Whether \p kernel was compiled for this kind.
  bool has(const std::string &kernel) const { return kernels.count(kernel); }

  /// Launches \p kernel on \p operands. \p live null: all \p rows are live.
  void launch(const std::string &kernel,
              const std::vector<const Memory *> &operands, int rows,
              const Memory *live = nullptr);

  /// Adds a launch of \p kernel to \p stream, of operands wherever they are.
  /// \p isProgrammatic: the launch in front need not have ended.
  void enqueue(const std::string &kernel, std::vector<DevicePointer> operands,
               int rows, void *stream, bool isProgrammatic);

  /// Microseconds that a launch like the last one takes, the mean of some.
  double time();

  /// Prints a line: largest difference of \p got and \p expected, relative to
  /// the number and the root mean square of all.
  void compare(const std::string &what, const std::vector<double> &expected,
               const std::vector<float> &got, double limit,
               double microseconds = 0);
  /// Prints a line: whether the bytes of \p a and \p b are equal.
  template <typename T>
  void same(const std::string &what, const std::vector<T> &a,
            const std::vector<T> &b) {
    bool equal = a.size() == b.size() &&
                 std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
    report(what, equal ? "same bits" : "DIFFERENT BITS", equal);
  }
  /// The bytes from \p begin on are still those of poison.
  template <typename T>
  void untouched(const std::string &what, const std::vector<T> &values,
                 size_t begin) {
    bool good = true;
    for (size_t i = begin; i < values.size(); ++i) {
      T poison;
      std::memset(&poison, 0xff, sizeof(poison));
      good &= std::memcmp(&poison, &values[i], sizeof(T)) == 0;
    }
    if (!good)
      report(what, "WRITES DEAD ROWS", false);
  }
  void report(const std::string &what, const std::string &verdict, bool good);

  int failures = 0, lines = 0;

private:
  const LoadedKernel &load(const std::string &name);
  void start(const LoadedKernel &kernel, const std::string &name,
             std::vector<DevicePointer> &pointers, int rows, void *stream,
             bool isProgrammatic);

  std::string kind;
  std::map<std::string, LoadedKernel> kernels;
  std::map<std::string, void *> modules;
  void *begin = nullptr, *end = nullptr;
  std::function<void()> last;
};

} // namespace tandem::gpucheck

#endif // TANDEM_TEST_CUDA_RUN_H
