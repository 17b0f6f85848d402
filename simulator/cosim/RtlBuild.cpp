//===- RtlBuild.cpp - Verilated machines, built when needed ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/cosim/RtlBuild.h"

#include "isa/files/Installation.h"
#include "simulator/cosim/MachinePackage.h"
#include "simulator/cosim/RtlAbi.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tw;
using namespace tw::cosim;
namespace fs = std::filesystem;

namespace {

Diagnostic problem(const std::string &message) { return {"", 0, 0, message}; }

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::string slurp(const fs::path &file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Two FNV-1a sums with different starts: 128 bits as 32 digits.
std::string digestOf(const std::vector<std::string> &parts) {
  uint64_t sums[2] = {14695981039346656037ull, 0x9e3779b97f4a7c15ull};
  auto add = [&](const std::string &bytes) {
    for (uint64_t &sum : sums)
      for (unsigned char byte : bytes)
        sum = (sum ^ byte) * 1099511628211ull;
  };
  for (const std::string &part : parts) {
    add(std::to_string(part.size()) + ":");
    add(part);
  }
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(sums[0]),
                static_cast<unsigned long long>(sums[1]));
  return text;
}

/// Runs a program, both of its outputs appended to `log`. Returns its exit status, -1 if it could not be started.
int execute(const std::vector<std::string> &arguments, const fs::path &log) {
  std::vector<char *> argv;
  for (const std::string &argument : arguments)
    argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0)
    return -1;
  if (child == 0) {
    const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (file < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0)
      _exit(127);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return -1;
  return WIFEXITED(status) ? (WEXITSTATUS(status) == 127 ? -1 : WEXITSTATUS(status)) : 1;
}

std::string lastLines(const fs::path &file, size_t count) {
  const std::string text = slurp(file);
  size_t at = text.find_last_not_of('\n');
  if (at == std::string::npos)
    return "";
  const size_t end = at + 1;
  while (count-- && at != std::string::npos)
    at = at ? text.rfind('\n', at - 1) : std::string::npos;
  return text.substr(at == std::string::npos ? 0 : at + 1, end - (at == std::string::npos ? 0 : at + 1));
}

/// A folder that is gone at the end, whatever happens.
class ScratchFolder {
public:
  explicit ScratchFolder(fs::path path) : path(std::move(path)) {}
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  const fs::path path;
};

/// Only one process builds a model; the others wait for it. Where the lock cannot be had all build, which is only slower.
class BuildLock {
public:
  explicit BuildLock(const fs::path &path) : file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {}
  ~BuildLock() {
    if (file >= 0)
      close(file);
  }
  bool tryLock() { return file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0; }
  void lock(const std::function<void()> &waiting) {
    if (file >= 0 && !tryLock() && errno == EWOULDBLOCK) {
      waiting();
      flock(file, LOCK_EX);
    }
  }

private:
  const int file;
};

/// Removes what interrupted builds have left: folders of models that nobody builds now.
void removeLeftovers(const fs::path &cache) {
  std::error_code ignored;
  std::vector<fs::path> folders;
  for (const fs::directory_entry &entry : fs::directory_iterator(cache, ignored))
    if (entry.path().extension() == ".build")
      folders.push_back(entry.path());
  for (const fs::path &folder : folders) // MODEL.PID.build
    if (BuildLock(cache / folder.stem().replace_extension(".lock")).tryLock())
      fs::remove_all(folder, ignored);
}

/// What the installation has for RTL models.
fs::path installedFolder() { return fs::path(files::shareFolder()) / "rtl"; }

/// Sources of the RTL and of the shim: $TILEWRIGHT_RTL, or those of the installation.
fs::path sourceFolder() {
  const std::string chosen = environment("TILEWRIGHT_RTL");
  return chosen.empty() ? installedFolder() : fs::path(chosen);
}

/// Makes a folder and those above it, for this user alone: a model in it is code.
std::error_code makePrivateFolder(const fs::path &folder) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error))
    return {};
  if (std::error_code above = makePrivateFolder(folder.parent_path()))
    return above;
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return {errno, std::generic_category()};
  return fs::is_directory(folder, error) ? std::error_code() : std::make_error_code(std::errc::not_a_directory);
}

/// How somebody who is neither this user nor root can change what is there; empty if nobody can.
std::string openTo(const struct stat &status) {
  if (status.st_uid != geteuid() && status.st_uid != 0)
    return "it belongs to user " + std::to_string(status.st_uid);
  if (!(status.st_mode & (S_IWGRP | S_IWOTH)))
    return "";
  char mode[8];
  std::snprintf(mode, sizeof mode, "%o", unsigned(status.st_mode & 07777));
  return std::string("its mode is ") + mode;
}

Diagnostic writableByOthers(const std::string &what, const fs::path &path, const std::string &how) {
  return problem(what + " '" + path.string() + "' can be written by others: " + how +
                 "; an RTL model is code that runs here, so take their right away (chmod go-w) or set TILEWRIGHT_RTL_CACHE to "
                 "another folder");
}

Result<fs::path> cacheFolder() {
  fs::path folder = environment("TILEWRIGHT_RTL_CACHE");
  if (folder.empty()) {
    fs::path base = environment("XDG_CACHE_HOME");
    if (base.empty()) {
      base = environment("HOME");
      if (base.empty())
        return problem("there is no folder for RTL models: none of TILEWRIGHT_RTL_CACHE, XDG_CACHE_HOME and HOME is set");
      base /= ".cache";
    }
    folder = base / "tilewright" / "rtl";
  }
  std::error_code error = makePrivateFolder(fs::absolute(folder));
  fs::path path = error ? fs::path() : fs::canonical(folder, error);
  struct stat status {};
  if (!error && stat(path.c_str(), &status) != 0)
    error = {errno, std::generic_category()};
  if (error)
    return problem("cannot make the folder for RTL models '" + folder.string() + "': " + error.message());
  if (const std::string how = openTo(status); !how.empty())
    return writableByOthers("the folder for RTL models", path, how);
  // Who may write to a folder above can put another one in its place; a sticky one, such as /tmp, keeps what is not theirs.
  for (fs::path above = path; above != above.root_path();) {
    above = above.parent_path();
    if (stat(above.c_str(), &status) == 0 && (status.st_mode & S_IWOTH) && !(status.st_mode & S_ISVTX))
      return writableByOthers("the folder for RTL models", path, "everybody can write to '" + above.string() + "'");
  }
  return path;
}

/// What stands beside a model: how large it is, and the digest of its bytes.
std::string recordOf(const std::string &object) {
  return "tilewright RTL model 1\nbytes " + std::to_string(object.size()) + "\ndigest " + digestOf({object}) + "\n";
}

fs::path recordPath(const fs::path &object) { return fs::path(object).replace_extension(".record"); }

/// Whether the model is there as it was built. Error: others could have changed it, and its record too.
Result<bool> isWhole(const fs::path &object) {
  for (const fs::path &file : {object, recordPath(object)}) {
    struct stat status {};
    if (lstat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
      return false;
    if (const std::string how = openTo(status); !how.empty())
      return writableByOthers("the RTL model", file, how);
  }
  return slurp(recordPath(object)) == recordOf(slurp(object));
}

std::string compiler() {
  const std::string chosen = environment("CXX");
  if (!chosen.empty())
    return chosen;
  return fs::exists(TILEWRIGHT_CXX) ? TILEWRIGHT_CXX : "c++";
}

/// What a command prints, without the line's end; empty if it cannot run.
std::string outputOf(const char *command) {
  std::string text;
  if (FILE *pipe = popen(command, "r")) {
    char buffer[256];
    while (size_t size = fread(buffer, 1, sizeof buffer, pipe))
      text.append(buffer, size);
    pclose(pipe);
  }
  return text.substr(0, text.find('\n'));
}

/// How the model is made; a part of its digest.
const std::vector<std::string> kVerilatorFlags = {"--cc",         "-sv",    "-O3",        "--x-assign",     "fast",
                                                  "--x-initial",  "fast",   "--noassert", "--output-split", "20000",
                                                  "--top-module", "tw_top", "--prefix",   "Vtw_top"};
const std::vector<std::string> kTraceFlags = {"--trace-fst", "--trace-structs"};
// Models compiled with -O2 are not faster, and take half as long again to build.
const std::vector<std::string> kMakeFlags = {"OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O2", "USER_CPPFLAGS=-fPIC -w"};

std::vector<std::string> operator+(std::vector<std::string> list, const std::vector<std::string> &more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

/// Whether models write what Verilator's coverage flags, given as extraFlags(), make them count; see RtlShim.cpp.
bool measuresCoverage() { return !environment("TILEWRIGHT_RTL_COVERAGE").empty(); }

/// For experiments with the RTL: further arguments of Verilator, separated by spaces.
std::vector<std::string> extraFlags() {
  std::istringstream text(environment("TILEWRIGHT_VERILATOR_FLAGS"));
  std::vector<std::string> flags;
  for (std::string flag; text >> flag;)
    flags.push_back(flag);
  return flags;
}

Result<fs::path> build(const timing::MachineParams &machine, bool traced, const std::string &package,
                       const std::vector<std::string> &sources, const fs::path &cache, const fs::path &object,
                       const RtlProgress &progress) {
  ScratchFolder scratch(cache / (object.stem().string() + "." + std::to_string(getpid()) + ".build"));
  std::error_code error;
  fs::create_directories(scratch.path, error);
  if (error)
    return problem("cannot write to '" + cache.string() + "': " + error.message());
  const fs::path log = scratch.path / "log";
  std::ofstream(scratch.path / "tw_machine_pkg.sv") << package;

  auto failed = [&](const std::string &what, int status) {
    if (status < 0)
      return problem("cannot run " + what + ", which the RTL model of " + machine.name + " needs");
    return problem(what + " failed on the RTL model of " + machine.name + ":\n" + lastLines(log, 20));
  };
  if (progress)
    progress("building the RTL model of " + machine.name + ": verilator");
  std::vector<std::string> verilate = std::vector<std::string>{"verilator", "--Mdir", scratch.path.string()} + kVerilatorFlags;
  if (traced)
    verilate = verilate + kTraceFlags;
  verilate = verilate + extraFlags();
  for (const std::string &source : sources)
    verilate.push_back(source);
  if (int status = execute(verilate, log))
    return failed("verilator", status);

  if (progress)
    progress("building the RTL model of " + machine.name + ": compiler");
  const std::string ccache = outputOf("command -v ccache");
  const std::string jobs = std::to_string(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::string> make = std::vector<std::string>{"make",
                                                           "-C",
                                                           scratch.path.string(),
                                                           "-f",
                                                           "Vtw_top.mk",
                                                           "-j",
                                                           jobs,
                                                           "CXX=" + compiler(),
                                                           "LINK=" + compiler(),
                                                           "OBJCACHE=" + ccache} +
                                  kMakeFlags;
  std::vector<std::string> objects = {"verilated.o", "verilated_threads.o"};
  if (traced)
    objects.push_back("verilated_fst_c.o");
  if (measuresCoverage())
    objects.push_back("verilated_cov.o");
  make = make + objects + std::vector<std::string>{"Vtw_top__ALL.a"};
  if (int status = execute(make, log))
    return failed("the C++ compiler", status);
  const std::string include = outputOf("verilator --getenv VERILATOR_ROOT 2>/dev/null") + "/include";
  std::vector<std::string> link = {compiler(),
                                   "-std=c++17",
                                   "-O2",
                                   "-w",
                                   "-fPIC",
                                   "-shared",
                                   std::string("-DVM_TRACE_FST=") + (traced ? "1" : "0"),
                                   std::string("-DVM_TRACE=") + (traced ? "1" : "0"),
                                   std::string("-DVM_COVERAGE=") + (measuresCoverage() ? "1" : "0"),
                                   "-I" + sourceFolder().string(),
                                   "-I" + scratch.path.string(),
                                   "-isystem",
                                   include,
                                   "-isystem",
                                   include + "/vltstd",
                                   (sourceFolder() / "simulator/cosim/RtlShim.cpp").string(),
                                   (scratch.path / "Vtw_top__ALL.a").string()};
  for (const std::string &file : objects)
    link.push_back((scratch.path / file).string());
  if (traced)
    link.push_back("-lz");
  const fs::path made = scratch.path / "model.so";
  link.insert(link.end(), {"-pthread", "-latomic", "-Wl,-z,defs", "-o", made.string()});
  if (int status = execute(link, log))
    return failed("the C++ compiler", status);
  const fs::path record = scratch.path / "model.record";
  std::ofstream(record) << recordOf(slurp(made));
  // Whoever reads between the two finds that they differ, and waits for the lock.
  for (const auto &[from, to] : {std::pair(record, recordPath(object)), std::pair(made, object)}) {
    fs::permissions(from, from == made ? fs::perms::owner_all : fs::perms::owner_read | fs::perms::owner_write, error);
    if (!error)
      fs::rename(from, to, error);
    if (error)
      return problem("cannot write '" + to.string() + "': " + error.message());
  }
  return object;
}

} // namespace

Result<std::vector<std::string>> cosim::rtlSources(const std::string &machinePackage) {
  const fs::path folder = sourceFolder() / "simulator" / "rtl";
  std::vector<std::string> packages = {(installedFolder() / "tw_isa_pkg.sv").string(), machinePackage,
                                       (folder / "tw_pkg.sv").string(), (installedFolder() / "tw_tables_pkg.sv").string(),
                                       (folder / "tw_fp_pkg.sv").string()};
  std::vector<std::string> modules;
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".sv" && (name.size() < 7 || name.substr(name.size() - 7) != "_pkg.sv"))
      modules.push_back(entry.path().string());
  }
  if (error)
    return problem("cannot read the RTL in '" + folder.string() + "': " + error.message());
  std::sort(modules.begin(), modules.end());
  packages.insert(packages.end(), modules.begin(), modules.end());
  return packages;
}

std::optional<std::string> cosim::whyNoRtl(const timing::MachineParams &machine) {
  const timing::DramParams &dram = machine.dram;
  if (machine.burstsPerCycle > 1 || machine.preloadRowsPerCycle > 1)
    return "its banks have one port, so a DMA engine moves 1 burst and a preload 1 row a cycle, not " +
           std::to_string(machine.burstsPerCycle) + " and " + std::to_string(machine.preloadRowsPerCycle);
  struct Limit {
    const char *what;
    uint32_t found, most;
  };
  for (const auto &[what, found, most] :
       {Limit{"dma.outstanding_bursts is ", machine.outstandingBursts, kMaxRtlBursts},
        Limit{"dram.write_buffer_bursts is ", dram.writeBufferBursts, kMaxRtlWriteBuffer},
        Limit{"dram.channels is ", dram.channels, kMaxRtlChannels},
        Limit{"DRAM completions in one cycle are up to ", dramResponsesPerCycle(machine), kMaxRtlResponses}})
    if (found > most)
      return what + std::to_string(found) + " but may be at most " + std::to_string(most);
  return {};
}

Result<const RtlTable *> cosim::loadRtl(const timing::MachineParams &machine, bool traced, const RtlProgress &progress) {
  if (std::optional<std::string> why = whyNoRtl(machine))
    return problem("the RTL does not run machine " + machine.name + ": " + *why);
  const std::string package = rtlMachinePackage(machine);
  // Neither sources nor tools change under a running process.
  static std::map<std::pair<std::string, bool>, const RtlTable *> loaded;
  const RtlTable *&table = loaded[{package, traced}];
  if (table)
    return table;

  const std::string version = outputOf("verilator --version 2>/dev/null");
  if (version.empty())
    return problem("cannot run verilator, which the RTL model of " + machine.name + " needs");
  Result<fs::path> cache = cacheFolder();
  if (!cache)
    return cache.diagnostics();
  Result<std::vector<std::string>> names = rtlSources("");
  if (!names)
    return names.diagnostics();
  std::vector<std::string> parts = {version, compiler(), package, slurp(sourceFolder() / "simulator/cosim/RtlShim.cpp"),
                                    slurp(sourceFolder() / "simulator/cosim/RtlAbi.h")};
  parts = parts + kVerilatorFlags + kMakeFlags;
  if (traced)
    parts = parts + kTraceFlags;
  if (measuresCoverage())
    parts.push_back("coverage");
  parts = parts + extraFlags();
  for (const std::string &name : *names)
    parts.push_back(slurp(name));
  const fs::path object = *cache / ("rtl-" + digestOf(parts) + ".so");
  std::error_code ignored;
  std::optional<BuildLock> lock;
  Result<bool> whole = isWhole(object);
  if (whole && !*whole) {
    removeLeftovers(*cache);
    lock.emplace(fs::path(object).replace_extension(".lock"));
    lock->lock([&] {
      if (progress)
        progress("waiting for the RTL model of " + machine.name + ", which another process builds");
    });
  }
  if (lock)
    whole = isWhole(object);
  if (!whole)
    return whole.diagnostics();
  if (!*whole) {
    if (progress && fs::exists(object, ignored))
      progress("the RTL model of " + machine.name + " in '" + cache->string() + "' is damaged, and built again");
    const fs::path packageFile =
        *cache / (object.stem().string() + "." + std::to_string(getpid()) + ".build") / "tw_machine_pkg.sv";
    Result<std::vector<std::string>> sources = rtlSources(packageFile.string());
    if (!sources)
      return sources.diagnostics();
    Result<fs::path> built = build(machine, traced, package, *sources, *cache, object, progress);
    if (!built)
      return built.diagnostics();
  }
  void *library = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return problem("cannot load the RTL model: " + std::string(dlerror()));
  using Entry = const RtlTable *();
  Entry *entry = reinterpret_cast<Entry *>(dlsym(library, "twRtl"));
  if (!entry || entry()->abi != kRtlAbi)
    return problem("'" + object.string() + "' is no RTL model of this version");
  table = entry();
  return table;
}
