//===- Torch.cpp - PyTorch as a yardstick ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/external/Externals.h"
#include "runtime/external/KernelModel.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

using namespace tw;
using namespace tw::runtime;

namespace {

/// The other side. It reads a line of arguments and the weights, says its version, then answers each input with a line of its wall
/// and processor seconds and the output. Its first line is "no REASON" where it cannot work.
constexpr const char *kWorker = R"python(
import sys, time
read, write = sys.stdin.buffer, sys.stdout.buffer
def say(text):
    write.write((text + "\n").encode())
    write.flush()
kind, element, threads, stride, pad, groups, x_shape, w_shape = read.readline().decode().split()
numbers = lambda text: [int(n) for n in text.split("x")]
try:
    import torch
    torch.set_num_threads(int(threads))
    element = {"fp32": torch.float32, "bf16": torch.bfloat16}[element]
    def tensor(shape):
        count = 1
        for size in shape:
            count *= size
        size = 4 if element == torch.float32 else 2
        return torch.frombuffer(bytearray(read.read(count * size)), dtype=element).reshape(shape)
    w = tensor(numbers(w_shape))
    say("torch " + torch.__version__)
except Exception as error:
    say("no " + type(error).__name__ + ": " + " ".join(str(error).split()))
    sys.exit()
with torch.no_grad():
    x_shape = numbers(x_shape)
    while True:
        if not read.peek(1):
            break
        x = tensor(x_shape)
        cpu, wall = time.process_time(), time.perf_counter()
        if kind == "gemm":
            y = torch.matmul(x, w)
        else:
            y = torch.nn.functional.conv2d(x, w, stride=int(stride), padding=int(pad), groups=int(groups))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        say(f"{wall} {cpu}")
        write.write(y.contiguous().view(torch.int16 if element == torch.bfloat16 else torch.int32).numpy().tobytes())
        write.flush()
)python";

/// A Python process with a kernel.
class TorchDevice : public Device {
public:
  TorchDevice(const ExternalModel &model) : model(model) {}
  ~TorchDevice() override {
    if (to)
      std::fclose(to);
    if (from)
      std::fclose(from);
    if (child > 0)
      waitpid(child, nullptr, 0);
    std::signal(SIGPIPE, oldSignal);
  }
  const std::vector<TensorSpec> &inputs() const override { return model.inputs; }
  const std::vector<TensorSpec> &outputs() const override { return model.outputs; }

  Status start(const std::string &python, unsigned threads, std::string &version);
  StatusOr<Launch> launch(const std::vector<HostTensor> &inputs) override;

private:
  bool readLine(std::string &line) {
    line.clear();
    for (int c; (c = std::fgetc(from)) != EOF;) {
      if (c == '\n')
        return true;
      line += char(c);
    }
    return false;
  }
  bool write(const void *data, size_t bytes) { return std::fwrite(data, 1, bytes, to) == bytes && std::fflush(to) == 0; }
  Error ended() const { return userError(model.name + ": the Python process with torch ended before it answered"); }

  ExternalModel model;
  pid_t child = -1;
  void (*oldSignal)(int) = SIG_DFL;
  std::FILE *to = nullptr, *from = nullptr;
};

std::string joined(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

Status TorchDevice::start(const std::string &python, unsigned threads, std::string &version) {
  const std::string program = python.empty() ? "python3" : python;
  int down[2], up[2];
  if (pipe(down))
    return internalError(std::string("cannot make a pipe: ") + std::strerror(errno));
  if (pipe(up)) {
    close(down[0]);
    close(down[1]);
    return internalError(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  // A process that is gone is an error of write(), not a signal.
  oldSignal = std::signal(SIGPIPE, SIG_IGN);
  child = fork();
  if (child == 0) {
    dup2(down[0], STDIN_FILENO);
    dup2(up[1], STDOUT_FILENO);
    for (int end : {down[0], down[1], up[0], up[1]})
      close(end);
    execlp(program.c_str(), program.c_str(), "-c", kWorker, static_cast<char *>(nullptr));
    _exit(127);
  }
  close(down[0]);
  close(up[1]);
  to = fdopen(down[1], "wb");
  from = fdopen(up[0], "rb");
  if (child < 0 || !to || !from)
    return internalError(std::string("cannot start a process: ") + std::strerror(errno));

  const InlineKernel &kernel = *model.kernel;
  const KernelShapes shapes = shapesOf(kernel);
  const HostTensor weights = weightsOf(kernel, model.seed);
  const std::string head = std::string(kernel.isConv ? "conv" : "gemm") + " " +
                           (kernel.type == timing::ArrayType::Bf16 ? "bf16" : "fp32") + " " + std::to_string(threads) + " " +
                           std::to_string(kernel.stride) + " " + std::to_string(kernel.pad) + " " +
                           std::to_string(kernel.groups) + " " + joined(shapes.x) + " " + joined(shapes.w) + "\n";
  // Where torch is missing, the process ends before it has read all.
  (void)(write(head.data(), head.size()) && write(weights.bytes.data(), weights.bytes.size()));
  std::string answer;
  if (!readLine(answer))
    return userError("PyTorch is not there: '" + program + " -c ...' does not run; say which Python has it with --python");
  if (answer.rfind("no ", 0) == 0)
    return userError("PyTorch is not there: '" + program + "' cannot import torch (" + answer.substr(3) +
                     "); say which Python has it with --python");
  version = "PyTorch" + answer.substr(5);
  return {};
}

StatusOr<Launch> TorchDevice::launch(const std::vector<HostTensor> &inputs) {
  const HostTensor x = toChannelsFirst(*model.kernel, inputs[0]);
  std::string line;
  Launch launch;
  if (!write(x.bytes.data(), x.bytes.size()) || !readLine(line) ||
      std::sscanf(line.c_str(), "%lf %lf", &launch.wallSeconds, &launch.cpuSeconds) != 2)
    return ended();
  HostTensor y{model.outputs[0].name, model.outputs[0].type, shapesOf(*model.kernel).y, {}};
  y.bytes.resize(frontend::elementBytes(y.type) * size_t(elementCount(y.shape)));
  if (std::fread(y.bytes.data(), 1, y.bytes.size(), from) != y.bytes.size())
    return ended();
  launch.outputs.push_back(toChannelsLast(*model.kernel, y));
  return launch;
}

class Torch : public External {
public:
  const char *name() const override { return "torch"; }

  std::optional<std::string> whyNot(const ExternalModel &model) const override {
    if (!model.kernel)
      return "PyTorch reads no ONNX files: give an inline kernel (gemm:... or conv:...)";
    if (model.kernel->type == timing::ArrayType::Int8)
      return "PyTorch has no int8 product that requantises as the kernel does: give one of fp32 or bf16";
    return std::nullopt;
  }

  StatusOr<std::unique_ptr<Device>> load(const ExternalModel &model, const std::string &path, unsigned threads) override {
    auto device = std::make_unique<TorchDevice>(model);
    if (Status status = device->start(path, threads, found); !status)
      return status.error();
    return std::unique_ptr<Device>(std::move(device));
  }

  std::string version() const override { return found; }

private:
  std::string found;
};

} // namespace

std::unique_ptr<External> runtime::makeTorch() { return std::make_unique<Torch>(); }
