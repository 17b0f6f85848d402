//===- Main.cpp - The `tilewright` command line ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/OutOfMemory.h"
#include "isa/Printable.h"
#include "runtime/cli/Cli.h"

#include "llvm/Support/ErrorHandling.h"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <unistd.h>

using namespace tw;
using namespace tw::cli;

static std::string allocationText(size_t bytes) { return "an allocation of " + std::to_string(bytes) + " bytes failed"; }

/// Whatever the program and its libraries allocate: the standard's operator would not say how much was wanted.
void *operator new(size_t bytes) {
  while (true) {
    if (void *memory = std::malloc(bytes ? bytes : 1))
      return memory;
    if (std::new_handler handler = std::get_new_handler())
      handler();
    else
      throw OutOfMemory(allocationText(bytes));
  }
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

/// Arguments with a line break, as they stand in messages.
static std::vector<std::string> brokenArguments;

/// Every line of a message gets the program's name, so that it can be found in a log. What came from outside is made printable.
static int fail(runtime::ErrorKind kind, std::string message) {
  for (const std::string &argument : brokenArguments)
    for (size_t at = 0; (at = message.find(argument, at)) != std::string::npos;) {
      const std::string text = printable(argument);
      message.replace(at, argument.size(), text);
      at += text.size();
    }
  const char *prefix = kind == runtime::ErrorKind::Fault      ? "tilewright: fault: "
                       : kind == runtime::ErrorKind::Internal ? "tilewright: internal error: "
                                                              : "tilewright: ";
  size_t begin = 0;
  while (begin <= message.size()) {
    size_t end = message.find('\n', begin);
    if (end == std::string::npos)
      end = message.size();
    if (end > begin)
      std::fprintf(stderr, "%s%s\n", prefix, printable(message.substr(begin, end - begin)).c_str());
    begin = end + 1;
  }
  return int(kind);
}

/// What memory the process has when it gets no more.
static std::string memoryText() {
  unsigned long long pages = 0;
  if (FILE *file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%llu", &pages) != 1)
      pages = 0;
    std::fclose(file);
  }
  return "an allocation failed with " + std::to_string(pages * uint64_t(sysconf(_SC_PAGESIZE))) +
         " bytes of address space in use";
}

/// LLVM's own containers do not throw, and would abort.
static void llvmOutOfMemory(void *, const char *, bool) {
  std::_Exit(fail(runtime::ErrorKind::User, "out of memory: " + memoryText()));
}

/// The next file that is opened would get the number of a stream that is closed, and what is meant for the stream. Now reading and writing
/// fail there.
static void keepStandardStreams() {
  for (int stream : {0, 1, 2})
    if (fcntl(stream, F_GETFD) == -1)
      open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
}

/// `status`, unless it is 0 and what was printed is lost.
static int finish(int status) {
  if (std::fflush(stdout) != 0)
    return status ? status
                  : fail(runtime::ErrorKind::User, std::string("cannot write standard output: ") + std::strerror(errno));
  return status || !std::ferror(stdout) ? status
                                        : fail(runtime::ErrorKind::User, "cannot write standard output"); // some time ago
}

/// LLVM has no code for what it was given: features that contradict each other, for example.
static void llvmGaveUp(void *namesProcessor, const char *reason, bool) {
  const bool isAsked = *static_cast<bool *>(namesProcessor);
  const int status =
      fail(isAsked ? runtime::ErrorKind::User : runtime::ErrorKind::Internal,
           isAsked ? std::string("LLVM makes no code for the processor of --arch, --cpu and --features: ") + reason
                   : std::string("LLVM: ") + reason);
  std::fflush(stdout);
  _exit(status);
}

int main(int argc, char **argv) {
  keepStandardStreams();
  llvm::install_bad_alloc_error_handler(llvmOutOfMemory);
  static bool namesProcessor = false;
  for (const std::string &argument : std::vector<std::string>(argv, argv + argc))
    for (const char *option : {"--features", "--cpu", "--arch"})
      namesProcessor |= argument.rfind(option, 0) == 0;
  llvm::install_fatal_error_handler(llvmGaveUp, &namesProcessor);
  for (const std::string &argument : std::vector<std::string>(argv, argv + argc))
    for (const std::string &text : {argument, argument.substr(argument.find('=') + 1)}) // a value stands without its name, too
      if (text.find('\n') != std::string::npos)
        brokenArguments.push_back(text);
  CLI::App app("Tilewright: compile neural networks for a simulated tensor accelerator, run them and see where the cycles go",
               "tilewright");
  app.set_version_flag("--version", std::string("tilewright ") + TILEWRIGHT_VERSION);
  app.require_subcommand(1);
  app.footer("Exit status: 0 ok, 1 user error, 2 fault in the simulated program, 3 internal error.");
  Action action;
  addRunCommand(app, action);
  addCompileCommand(app, action);
  addCompareCommand(app, action);
  addProfileCommand(app, action);
  addCheckCommand(app, action);
  addVerifyCommand(app, action);
  addTuneCommand(app, action);
  addQuantizeCommand(app, action);
  addHwCommand(app, action);
  addDramCommand(app, action);
  addPythonCommands(app, action);
  addAssemblerCommands(app, action);
  addDoctorCommand(app, action);
  addOperatorsCommand(app, action);
  addRulesCommand(app, action);
  if (argc == 2 && std::string(argv[1]) == "--describe") {
    std::fputs(describe(app).c_str(), stdout);
    return finish(0);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == int(CLI::ExitCodes::Success))
      return finish(app.exit(error)); // --help, --version
    std::string message = error.what();
    // CLI11 only says that a subcommand is missing.
    std::string commands;
    bool known = false;
    for (const CLI::App *command : app.get_subcommands({})) {
      commands += (commands.empty() ? "" : ", ") + command->get_name();
      known |= argc > 1 && command->get_name() == argv[1];
    }
    if (argc > 1 && argv[1][0] != '-' && !known)
      message = "unknown command '" + std::string(argv[1]) + "', expected one of " + commands;
    if (message.size() > 1 && std::isupper(message[0]) && std::islower(message[1]))
      message[0] = char(std::tolower(message[0]));
    return fail(runtime::ErrorKind::User, message);
  }
  try {
    Status status = action();
    return status ? finish(0) : fail(status.error().kind, status.error().message);
  } catch (const OutOfMemory &error) {
    return fail(runtime::ErrorKind::User, std::string("out of memory: ") + error.what());
  } catch (const std::bad_alloc &) {
    return fail(runtime::ErrorKind::User, "out of memory: " + memoryText());
  } catch (const std::exception &error) {
    return fail(runtime::ErrorKind::Internal, error.what());
  }
}
